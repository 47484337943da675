#include <capstan/base/paths.h>
#include <capstan/plugin/guard.h>

#include <filesystem>
#include <new>
#include <stdexcept>

namespace capstan::plugin {

void rethrow_with_context(const std::string& context) {
  try {
    throw;
  } catch (Error& error) {
    error.add_context(context);
    throw;
  } catch (const std::logic_error& bug) {
    throw std::logic_error(cat(bug.what(), "\n    while ", context));
  } catch (const std::filesystem::filesystem_error& error) {
    throw FileError(error.path1(), "use", error.code().value()).add_context(context);
  } catch (const std::bad_alloc&) {
    throw Error("the host has no memory left").add_context(context);
  } catch (const std::exception& other) {
    throw Error(other.what()).add_context(context);
  }
}

}  // namespace capstan::plugin
