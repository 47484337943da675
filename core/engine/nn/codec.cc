#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/nn/codec.h>

namespace capstan::nn {

Codec::~Codec() = default;
CodedSource::~CodedSource() = default;

// A codec that says that it can do something, and does not define how: its author is to see which function is missing.
void Codec::lacks(const char* function) const {
  throw Error(
      cat("the codec of strategy '", name(), "' has a capability whose function ", function, "() it does not define"),
      "define it, or take the capability out of capabilities()");
}

std::size_t Codec::stacked() const { lacks("stacked"); }
std::int64_t Codec::bytes(const Extent&) const { lacks("bytes"); }
void Codec::encode(const Extent&, const at::Tensor&, const at::Tensor&, const Sum&) const { lacks("encode"); }
void Codec::decode(const Extent&, const at::Tensor&, const at::Tensor&) const { lacks("decode"); }

at::Tensor Codec::encode_rows(const at::Tensor&, const at::Tensor&) const { lacks("encode_rows"); }
void Codec::keep_scales(const at::Tensor&) { lacks("keep_scales"); }

at::Tensor Codec::scales_of(const at::Tensor&) const { lacks("scales_of"); }
void Codec::encode_to_gather(const at::Tensor&, const at::Tensor&, const at::Tensor&) const {
  lacks("encode_to_gather");
}
void Codec::bind_gathered(at::Tensor, at::Tensor) { lacks("bind_gathered"); }

std::string Codec::form() const { lacks("form"); }
std::vector<Codec::FilePart> Codec::file_parts(const layout::Shape&) const { lacks("file_parts"); }
void Codec::check_matrix(const CodedMatrix&) const { lacks("check_matrix"); }
void Codec::read_matrices(const Extent&, std::int64_t, const std::vector<CodedMatrix>&, const at::Tensor&) const {
  lacks("read_matrices");
}
std::map<std::string, at::Tensor> Codec::write_matrix(const layout::Shape&, const at::Tensor&, c10::ScalarType) const {
  lacks("write_matrix");
}
std::string Codec::files_config(const std::vector<std::string>&, c10::ScalarType) const { lacks("files_config"); }

std::vector<CodedMatrix> coded_in(const layout::Source& source, const layout::Param& param, const layout::Box& box) {
  const auto* coded = dynamic_cast<const CodedSource*>(&source);
  return coded ? coded->coded(param, box) : std::vector<CodedMatrix>();
}

}  // namespace capstan::nn
