// The text of published.json, for published.cc alone.

#pragma once

namespace headcount::paper {

extern const char* const kPublishedJson;

}  // namespace headcount::paper
