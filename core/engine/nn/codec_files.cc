#include <capstan/nn/codec_files.h>

namespace capstan::nn {

CodecFiles::~CodecFiles() = default;
CodedSource::~CodedSource() = default;

std::vector<CodedMatrix> coded_in(const layout::Source& source, const layout::Param& param, const layout::Box& box) {
  const auto* coded = dynamic_cast<const CodedSource*>(&source);
  return coded ? coded->coded(param, box) : std::vector<CodedMatrix>();
}

}  // namespace capstan::nn
