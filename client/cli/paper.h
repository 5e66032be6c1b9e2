// The paper's numbers beside a user's own; `headcount curves` calls it.

#pragma once

#include "client/cli/context.h"

namespace headcount::cli {

// Prints what was published of the curves' scores for the job's model; nothing where the paper does
// not have it.
void PrintPublishedBeside(Context& context, const v1::Curves& curves);

}  // namespace headcount::cli
