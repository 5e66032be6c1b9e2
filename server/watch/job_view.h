// A stored job as clients see it: what changes without being stored (rate, time that remains, place
// in the queue) is filled in. Used by every answer that holds a job and by progress events. Pure
// functions but for QueuePosition, which reads the store's view.

#pragma once

#include <cstdint>
#include <vector>

#include "headcount/v1/job.pb.h"
#include "server/store/job_store.h"

namespace headcount::server {

bool IsTerminal(v1::Job::State state);

// Rows of stages that are certain to come but are not planned yet, from the spec: a sweep's rules
// while it scores. Negative: not known yet.
int64_t UnplannedRows(const v1::Job& job);

// Seconds that remain at `rows_per_second`; negative: unknown. 0 for a job that has ended.
double RemainingSeconds(const v1::Job& job, double rows_per_second);

// Of a job that is made of `jobs` others, of which `children` are created and shown as clients see
// them: the sums of their counts, and the time that remains if those that are not planned yet are
// like the others.
v1::Progress SumProgress(const std::vector<v1::Job>& children, int jobs, bool ended);

// Jobs that are served before this queued one: those of higher priority, and older ones of the
// same.
int64_t QueuePosition(const v1::Job& job, const store::QueueView& view);

}  // namespace headcount::server
