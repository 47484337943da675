#include "hf/door.h"

#include "hf/coded_folder.h"
#include "hf/config_file.h"
#include "hf/family.h"
#include "hf/hf_export.h"
#include "hf/write_folder.h"

namespace capstan::hf {
namespace {

std::unique_ptr<Folder> open(const FolderToOpen& folder) { return std::make_unique<CodedFolder>(folder); }

constexpr Door the_door{plugin_of_folder, check_family, quantization_of_folder, refuse_adapter, with_model_file,
                        map_in_folder,    open,         folder_tensors,         not_exportable, write_folder};

}  // namespace
}  // namespace capstan::hf

extern "C" __attribute__((visibility("default"))) const void* capstan_hf() { return &capstan::hf::the_door; }
