#include "plugin/guard.h"
#include <capstan/base/paths.h>

#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>

namespace capstan::plugin {

namespace {

// What LibTorch says of memory that has run out, in words and without the frames of its backtrace; any other text as it
// is.
Error in_words(const std::string& text) {
  constexpr const char* fix =
      "`capstan check --gpu` says what would make it smaller; [monitor.memory_snapshot] shows what holds it";
  const auto from = [&](std::size_t begin, const char* end) {
    return text.substr(begin, text.find(end, begin) - begin);
  };
  if (const auto at = text.find("CUDA out of memory"); at != std::string::npos)
    return Error(cat("this rank's GPU has no memory left: ", split(from(at, " If reserved"), '\n').front()), fix);
  const auto at = text.find("you tried to allocate");
  if (at != std::string::npos && text.find("DefaultCPUAllocator") != std::string::npos)
    return Error(cat("this host has no memory left: ", from(at, ". ")), fix);
  return Error(text);
}

}  // namespace

void rethrow_with_context(const std::string& context) {
  try {
    throw;
  } catch (Error& error) {
    error.add_context(context);
    throw;
  } catch (const std::logic_error& bug) {
    throw std::logic_error(cat(bug.what(), "\n    while ", context));
  } catch (const std::filesystem::filesystem_error& error) {
    throw Error(FileError(error.path1(), "use", error.code().value()).add_context(context));
  } catch (const std::bad_alloc&) {
    throw Error(Error("the host has no memory left").add_context(context));
  } catch (const std::exception& other) {
    throw Error(in_words(other.what()).add_context(context));
  }
}

}  // namespace capstan::plugin
