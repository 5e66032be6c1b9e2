// Numbers as the tables of results show them. Pure.

#pragma once

#include <string>

#include "google/protobuf/repeated_field.h"

namespace headcount::cli {

// A fraction in percent, without the sign; "-" where it is not finite.
std::string Percent(double fraction, int decimals = 1);

// With so many decimals; "-" where it is not finite.
std::string Number(double value, int decimals = 2);

// Of the finite values; NaN where there are none.
double MeanOfFinite(const google::protobuf::RepeatedField<double>& values);

}  // namespace headcount::cli
