#pragma once
#include <capstan/base/json.h>

#include <chrono>
#include <string>

namespace tables {

/// The Python that reads tables.
struct Python {
  std::string program = {};                    ///< empty: that of $VIRTUAL_ENV, else python3 of PATH
  std::chrono::milliseconds patience{120000};  ///< without a sign of life: then it hangs
};

/// Runs one of the scripts of this folder with a request and returns its answer. Throws one Error for what the script
/// says is wrong, at the file and row that it names, else at `where`, and for a Python that is not there, dies or
/// hangs.
capstan::Json ask_python(const Python& python, const char* script, const capstan::Json& request,
                         const std::string& where);

/// What the scripts are: decode.py and splits.py.
extern const char* const decode_script;
extern const char* const splits_script;

}  // namespace tables
