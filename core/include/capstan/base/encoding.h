#pragma once
#include <capstan/base/export.h>

#include <cstddef>
#include <string>
#include <string_view>

CAPSTAN_BEGIN_NAMESPACE

/// Where a text's first byte lies that no UTF-8 has; npos: all of it is UTF-8.
std::size_t find_no_utf8(std::string_view text);

/// Says that a text is in UTF-16, and what makes UTF-8 of it; empty: it does not begin as UTF-16 does.
std::string utf16_fault(std::string_view text);

CAPSTAN_END_NAMESPACE
