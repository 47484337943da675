#pragma once
#include <capstan/base/export.h>
#include <sys/resource.h>

#include <string>

CAPSTAN_BEGIN_NAMESPACE

/// What a limit of this process is, as the beginning of advice: "ulimit -n is 16 here: "; empty where none is set.
std::string limit_text(decltype(RLIMIT_AS) limit);

CAPSTAN_END_NAMESPACE
