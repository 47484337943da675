#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/nn/codec.h>

#include <map>
#include <string>
#include <vector>

#include "hf/door.h"
#include "hf/folder_source.h"

CAPSTAN_BEGIN_NAMESPACE
namespace hf {

/// A Hugging Face model folder of which some matrices may be in their codec's form.
class CodedFolder : public FolderSource {
 public:
  explicit CodedFolder(const FolderToOpen& folder);

  /// FolderSource's faults, and a packed matrix that no codec takes, or not as it is.
  void check(const std::vector<const layout::Param*>& params, Diagnostics& diagnostics) const override;

  std::vector<std::string> notes(const std::vector<const layout::Param*>& params) const override;

  /// Decodes what is coded, for which `box` is whole matrices.
  void fill(const layout::Param& param, const layout::Box& box, const at::Tensor& out) override;
  std::vector<nn::CodedMatrix> coded(const layout::Param& param, const layout::Box& box) const override;

 private:
  const nn::PackedForm* form_of(const Place& place) const;  ///< null: numbers
  nn::CodedMatrix matrix(const layout::Param& param, const Place& place, const nn::Codec& codec) const;
  using Unread = std::map<const nn::PackedForm*, std::vector<std::string>>;
  void judge(const layout::Param& param, Unread& unread, Diagnostics& diagnostics) const;
  std::string base_of(const std::string& name) const;

  nn::Codecs codecs_;                  ///< by record
  std::vector<nn::PackedForm> forms_;  ///< how packed matrices are recognised
};

}  // namespace hf
CAPSTAN_END_NAMESPACE
