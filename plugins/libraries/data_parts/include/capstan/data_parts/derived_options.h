#pragma once
#include <capstan/base/export.h>
#include <capstan/config/options.h>

#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace data {

/// Declares the options "python" and "derived" of a data plugin that has files made once a node (DerivedFile), maybe by
/// Python (python_program).
template <class T>
void describe_derived(config::OptionTable<T>& t, std::string T::*python, std::string T::*derived) {
  t.add("python", python)
      .doc(
          "the Python 3 with pyarrow (14 or newer) that decodes tables, and with jinja2 for a model's own template; "
          "not set: that of $VIRTUAL_ENV, else python3 of PATH");
  t.add("derived", derived)
      .path()
      .doc(
          "folder for what is made of the files once a node (a table's rows, conversations as a template writes them, "
          "lengths, tokens), which all ranks map and later runs find again; not set: $CAPSTAN_CACHE/derived, else "
          "$XDG_CACHE_HOME/capstan, else ~/.cache/capstan");
}

}  // namespace data
CAPSTAN_END_NAMESPACE
