#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/checkpoint/safetensors.h>
#include <capstan/layout/file_tensor.h>

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "hf/door.h"
#include "hf/mxfp4.h"
#include "hf/quantised.h"
#include "hf/safetensors_folder.h"

CAPSTAN_BEGIN_NAMESPACE
namespace hf {

/// A model folder whose tensors are numbers: what checkpoint::open_folder() gives.
class FolderSource : public Folder {
 public:
  /// `map` says where each record is. Throws Error for a folder that holds no safetensors; check() reports faults of
  /// its files.
  /// `file`: one of the folder whose name is not a model's.
  FolderSource(std::filesystem::path folder, layout::FileMap map, const std::string& file = {});

  const Diagnostics& faults() const override { return faults_; }
  void check(const std::vector<const layout::Param*>& params, Diagnostics& diagnostics) const override;
  std::vector<std::string> notes(const std::vector<const layout::Param*>& params) const override;
  bool may_lack(const layout::Param& param) const override;
  std::vector<nn::CodedMatrix> coded(const layout::Param&, const layout::Box&) const override { return {}; }

  /// A tensor as it is in the folder, with its full name; nothing when it does not exist. `name` is without prefix.
  struct InFile {
    std::string name;       ///< the full name
    c10::ScalarType dtype;  ///< how the file holds it
    bool coded = false;     ///< in codes, not in numbers
  };
  std::optional<InFile> in_file(const std::string& name) const;

  /// The folder's tensors that are none of the model's and are written again, numbers as they are and codes decoded,
  /// without their scales: FileMap::kept.
  std::vector<std::string> kept() const;
  /// What kept_tensor() gives.
  checkpoint::TensorHead kept_head(const std::string& full_name, c10::ScalarType compute) const;
  /// One of them, codes decoded to `compute`. It may only be read, and only while this lives.
  at::Tensor kept_tensor(const std::string& full_name, c10::ScalarType compute) const;

  bool concurrent() const override { return true; }
  bool has(const layout::Param& param) const override;
  void fill(const layout::Param& param, const layout::Box& box, const at::Tensor& out) override;

 protected:
  struct Place {
    const checkpoint::SafetensorsFile* file = nullptr;  ///< null: the tensor does not exist
    std::string name;                                   ///< its name in the file, with its prefix
  };
  const layout::FileTensor* mapped(const layout::Param& param) const;
  Place find(const std::string& name) const;
  std::optional<Mxfp4Tensor> find_packed(const std::string& name) const;
  // The tensors of a stack, or of a part of it that a box of the record holds, in order; or the only one.
  static std::vector<std::string> names_of(const layout::FileTensor& tensor);
  static std::vector<std::string> names_in(const layout::FileTensor& tensor, const layout::Param& param,
                                           const layout::Box& box);

  std::filesystem::path path_;  ///< the folder
  Diagnostics faults_;          ///< what is wrong with its files
  SafetensorsFolder folder_;    ///< their tensors
  layout::FileMap map_;         ///< where each record is
  Quantised quantised_;         ///< matrices that are decoded as they are read

 private:
  void fill_one(const layout::FileTensor& tensor, const std::string& name, const layout::Shape& shape,
                const layout::Box& box, const at::Tensor& out) const;
  layout::Shape shape_of(const Place& place) const;
  void read(const Place& place, const layout::Shape& shape, const layout::Box& box, const at::Tensor& out) const;
  std::string kind_fault(const Place& place, const layout::Shape& expected) const;
  bool is_ignored(const std::string& name) const;
  bool is_kept(const std::string& name) const;
  bool is_kept_around(const std::string& name) const;  // as what is not the text model's
  std::set<std::string> own_names() const;
  /// Whether the tensor is in the folder, as numbers or packed.
  bool is_there(const std::string& name) const;
};

}  // namespace hf
CAPSTAN_END_NAMESPACE
