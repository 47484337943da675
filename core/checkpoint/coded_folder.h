#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/checkpoint/folder_source.h>
#include <capstan/nn/codec_files.h>
#include <capstan/nn/model.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace checkpoint {

/// The codecs of frozen weights, by record.
using Codecs = std::map<std::string, std::shared_ptr<const nn::Codec>>;
Codecs codecs_of(const std::vector<nn::WeightPtr>& weights);

/// A Hugging Face model folder of which some matrices may be in their codec's form. All others are FolderSource's.
class CodedFolder : public layout::Source, public nn::CodedSource {
 public:
  /// `forms`: how packed matrices are recognised.
  CodedFolder(std::filesystem::path folder, layout::FileMap map, Codecs codecs, std::vector<nn::PackedForm> forms);

  /// FolderSource's, and: a packed matrix that no codec takes, or not as it is.
  void check(const std::vector<const layout::Param*>& params, Diagnostics& diagnostics) const;

  bool concurrent() const override { return true; }
  bool has(const layout::Param& param) const override { return plain_->has(param); }
  /// Decodes what is coded, for which `box` is whole matrices.
  void fill(const layout::Param& param, const layout::Box& box, const at::Tensor& out) override;
  std::vector<nn::CodedMatrix> coded(const layout::Param& param, const layout::Box& box) const override;

 private:
  // A tensor with its full name; the file is null if there is none.
  struct Found {
    const SafetensorsFile* file = nullptr;
    std::string name;
  };
  Found find(const std::string& name) const;
  const nn::PackedForm* form_of(const Found& found) const;  // null: numbers
  nn::CodedMatrix matrix(const layout::Param& param, const Found& found, const nn::CodecFiles& files) const;
  using Unread = std::map<const nn::PackedForm*, std::vector<std::string>>;
  void judge(const layout::Param& param, Unread& unread, Diagnostics& diagnostics) const;
  std::string base_of(const std::string& name) const;
  layout::FileMap map_without_coded(const layout::FileMap& map) const;

  std::filesystem::path path_;
  Diagnostics faults_;  // FolderSource finds the same
  SafetensorsFolder folder_;
  layout::FileMap map_;
  Codecs codecs_;
  std::vector<nn::PackedForm> forms_;
  std::unique_ptr<FolderSource> plain_;
};

}  // namespace checkpoint
CAPSTAN_END_NAMESPACE
