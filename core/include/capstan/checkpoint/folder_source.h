#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/checkpoint/safetensors.h>
#include <capstan/layout/file_tensor.h>
#include <capstan/layout/source.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace checkpoint {

/// Parameters from a Hugging Face model folder. Each fill reads only its box: a record fused with others in one
/// tensor, or transposed there, is read as a slice of the mapped file; one that stacks several tensors reads each.
/// Opening validates the files' headers. Several threads may fill at once.
class FolderSource : public layout::Source {
 public:
  /// `map` says where each record is. Throws Error for a folder that holds no safetensors; check() reports faults of
  /// its files.
  FolderSource(std::filesystem::path folder, layout::FileMap map);
  /// The same for one file of the folder, whose name is not a model's.
  FolderSource(std::filesystem::path folder, layout::FileMap map, const std::string& file);

  /// Compares the folder with all of a model's records: missing tensors, tensors of another shape or without a
  /// floating-point dtype, and tensors that no record uses, each kind one fault with its names; files that are missing,
  /// truncated or damaged.
  void check(const std::vector<const layout::Param*>& params, Diagnostics& diagnostics) const;

  /// A tensor as it is in the folder, with its full name; nothing when it does not exist. `name` is without prefix.
  struct InFile {
    std::string name;
    c10::ScalarType dtype;
  };
  std::optional<InFile> in_file(const std::string& name) const;

  /// Whether nothing of the parameter is in the folder, as FileMap::may_be_absent allows.
  bool may_lack(const layout::Param& param) const;

  bool concurrent() const override { return true; }
  bool has(const layout::Param& param) const override;
  void fill(const layout::Param& param, const layout::Box& box, const at::Tensor& out) override;

 protected:
  struct Place {
    const SafetensorsFile* file = nullptr;  // null: the tensor does not exist
    std::string name;                       // in the file, with its prefix
  };
  const layout::FileTensor* mapped(const layout::Param& param) const;
  Place find(const std::string& name) const;
  // The tensors of a stack, or of a part of it that a box of the record holds, in order; or the only one.
  static std::vector<std::string> names_of(const layout::FileTensor& tensor);
  static std::vector<std::string> names_in(const layout::FileTensor& tensor, const layout::Param& param,
                                           const layout::Box& box);

  std::filesystem::path path_;
  Diagnostics faults_;  // what is wrong with its files
  SafetensorsFolder folder_;
  layout::FileMap map_;

 private:
  void fill_one(const layout::FileTensor& tensor, const std::string& name, const layout::Shape& shape,
                const layout::Box& box, const at::Tensor& out) const;
  bool is_ignored(const std::string& name) const;
};

/// The way back: the tensors that `map` makes of these records, under their published names, in memory. Throws Error
/// for a record that it has no place for.
std::vector<NamedTensor> folder_tensors(const std::vector<const layout::Param*>& records, const layout::FileMap& map,
                                        layout::Source& values, c10::ScalarType dtype);

}  // namespace checkpoint
CAPSTAN_END_NAMESPACE
