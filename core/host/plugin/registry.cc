#include <capstan/base/text.h>
#include <capstan/plugin/registry.h>

namespace capstan::plugin {

void Registry::add(Registration registration) {
  if (!current_.file.empty()) {
    registration.kind = current_.kind;
    registration.name = current_.name;
    registration.version = current_.version;
    registration.summary = current_.summary;
    registration.file = current_.file;
  }
  if (const auto* other = find(registration.kind, registration.name)) {
    const auto who = cat(registration.kind, " plugin '", registration.name, "'");
    if (other->file == registration.file) {
      throw Error(cat("registers more than one type as ", who), "a plugin's file offers one: make it two plugins",
                  registration.file);
    }
    throw Error(cat("is a second ", who, "; the first is ", other->file), "keep one of the two files, or rename one",
                registration.file);
  }
  all_.push_back(std::move(registration));
}

const Registration* Registry::find(const std::string& kind, const std::string& name) const {
  for (const auto& registration : all_) {
    if (registration.kind == kind && registration.name == name) return &registration;
  }
  return nullptr;
}

}  // namespace capstan::plugin
