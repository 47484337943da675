#include <capstan/checkpoint/folder_source.h>

#include "hf/door.h"

namespace capstan::checkpoint {

std::unique_ptr<layout::Source> open_folder(const std::filesystem::path& folder, const layout::FileMap& map,
                                            const std::string& file) {
  auto opened = hf::door().open({folder, map, file});
  opened->faults().throw_if_any();
  return opened;
}

std::vector<NamedTensor> folder_tensors(const std::vector<const layout::Param*>& records, const layout::FileMap& map,
                                        layout::Source& values, c10::ScalarType dtype) {
  return hf::door().tensors(records, map, values, dtype);
}

}  // namespace capstan::checkpoint
