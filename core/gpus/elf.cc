#include "gpus/elf.h"

#include <capstan/base/text.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <unistd.h>

#include <memory>

namespace capstan::gpus {
namespace {

/// The strings of a dynamic section's entries with this tag.
std::vector<std::string> dynamic_strings(const std::string& file, std::int64_t tag) {
  std::vector<std::string> names;
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 || elf_version(EV_CURRENT) == EV_NONE) return names;
  {
    const std::unique_ptr<Elf, decltype(&elf_end)> elf(elf_begin(fd, ELF_C_READ_MMAP, nullptr), elf_end);
    for (Elf_Scn* section = nullptr; elf && (section = elf_nextscn(elf.get(), section)) != nullptr;) {
      GElf_Shdr header;
      if (gelf_getshdr(section, &header) == nullptr || header.sh_type != SHT_DYNAMIC) continue;
      Elf_Data* data = elf_getdata(section, nullptr);
      GElf_Dyn entry;
      for (int i = 0; data != nullptr && gelf_getdyn(data, i, &entry) != nullptr; ++i) {
        if (entry.d_tag != tag) continue;
        if (const char* name = elf_strptr(elf.get(), header.sh_link, entry.d_un.d_val)) names.emplace_back(name);
      }
    }
  }
  close(fd);
  return names;
}

}  // namespace

LibraryNeeds needs_of(const std::filesystem::path& file) {
  LibraryNeeds needs;
  needs.names = dynamic_strings(file.string(), DT_NEEDED);
  auto lists = dynamic_strings(file.string(), DT_RUNPATH);
  if (lists.empty()) {
    lists = dynamic_strings(file.string(), DT_RPATH);
    needs.own_first = !lists.empty();
  }
  const auto here = file.parent_path().string();
  for (const std::string& list : lists) {
    for (std::string folder : split(list, ':')) {
      const auto origin = folder.find("$ORIGIN");
      if (origin != std::string::npos) folder.replace(origin, std::string("$ORIGIN").size(), here);
      if (!folder.empty()) needs.folders.emplace_back(folder);
    }
  }
  return needs;
}

}  // namespace capstan::gpus
