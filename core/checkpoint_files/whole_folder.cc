#include "checkpoint/whole_folder.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <system_error>

namespace capstan::checkpoint {

namespace fs = std::filesystem;

fs::path temporary_of(const fs::path& folder) { return folder.string() + ".tmp"; }

fs::path make_temporary(const fs::path& folder) {
  auto temporary = temporary_of(folder);
  std::error_code error;
  fs::remove_all(temporary, error);
  if (!error) fs::create_directories(temporary, error);
  if (error) throw Error(cat("cannot make it: ", error.message()), {}, temporary.string());
  return temporary;
}

void put_in_place(const fs::path& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (!error) fs::rename(temporary_of(folder), folder, error);
  if (error)
    throw Error(cat("cannot move ", temporary_of(folder).string(), " to it: ", error.message()), {}, folder.string());
}

}  // namespace capstan::checkpoint
