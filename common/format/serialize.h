// Equal messages as equal bytes, maps in the order of their keys: for what is stored by digest, and
// for keys over messages. Pure.

#pragma once

#include <string>

#include "google/protobuf/message_lite.h"

namespace headcount::format {

std::string SerializeDeterministically(const google::protobuf::MessageLite& message);

}  // namespace headcount::format
