#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/checkpoint/folder_source.h>
#include <capstan/nn/codec.h>
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

/// A Hugging Face model folder of which some matrices may be in their codec's form.
class CodedFolder : public FolderSource, public nn::CodedSource {
 public:
  /// `forms`: how packed matrices are recognised.
  CodedFolder(std::filesystem::path folder, layout::FileMap map, Codecs codecs, std::vector<nn::PackedForm> forms);

  /// FolderSource's faults, and a packed matrix that no codec takes, or not as it is.
  void check(const std::vector<const layout::Param*>& params, Diagnostics& diagnostics) const;

  /// Decodes what is coded, for which `box` is whole matrices.
  void fill(const layout::Param& param, const layout::Box& box, const at::Tensor& out) override;
  std::vector<nn::CodedMatrix> coded(const layout::Param& param, const layout::Box& box) const override;

 private:
  const nn::PackedForm* form_of(const Place& place) const;  // null: numbers
  nn::CodedMatrix matrix(const layout::Param& param, const Place& place, const nn::Codec& codec) const;
  using Unread = std::map<const nn::PackedForm*, std::vector<std::string>>;
  void judge(const layout::Param& param, Unread& unread, Diagnostics& diagnostics) const;
  std::string base_of(const std::string& name) const;

  Codecs codecs_;
  std::vector<nn::PackedForm> forms_;
};

}  // namespace checkpoint
CAPSTAN_END_NAMESPACE
