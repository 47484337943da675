#pragma once
#include <string>

namespace capstan::json {

/// The shortest text that reads back as this finite double, and is no whole number's: "1.0".
std::string number_text(double number);

}  // namespace capstan::json
