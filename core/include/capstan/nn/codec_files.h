#pragma once
#include <capstan/base/box.h>
#include <capstan/base/export.h>
#include <capstan/layout/source.h>
#include <capstan/nn/codec.h>

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

/// Matrices of a model's folder that another program packed: how they are recognised, for a CodecFiles or to say which
/// strategy has one.
struct PackedForm {
  std::string name;    ///< CodecFiles::form(): what `capstan export --quantization` calls it
  std::string method;  ///< quant_method of such a folder's config.json
  /// Ends of the names of tensors that only accompany a packed matrix, after its own name: ".absmax".
  std::vector<std::string> ends;
  std::string words;  ///< "in 4 bits (of that method)"
  std::string fix;    ///< what makes a run read them: "add [strategy.mine]"
};

/// A matrix that a file holds in a codec's own form.
struct CodedMatrix {
  std::string name;     ///< the matrix's own name, which one of its tensors bears
  std::string file;     ///< for messages
  layout::Shape shape;  ///< shape of the decoded matrix, [rows, columns]
  /// Its tensors by the ends of their names ("", ".absmax"), as in the file, on CPU. They may only be read, and only
  /// while their source lives.
  std::map<std::string, at::Tensor> parts;
};

/// A Codec may be one too: then it knows files of another program that hold what it keeps, and no bit changes on the
/// way from and to them.
class CodecFiles {
 public:
  virtual ~CodecFiles();
  struct Part {
    std::string end;  ///< end of its name
    c10::ScalarType dtype = c10::ScalarType::Byte;
    layout::Shape shape;
  };
  /// As `capstan export --quantization` names it.
  virtual std::string form() const = 0;
  /// The tensors of a matrix [rows, columns]; the first has no end.
  virtual std::vector<Part> parts(const layout::Shape& shape) const = 0;
  /// Throws Error naming file and tensor for a matrix that cannot be taken as it is.
  virtual void check(const CodedMatrix& matrix) const = 0;
  /// An extent's part of `matrices`, whose first row begins with element `first` of each, to `bytes`
  /// [Codec::bytes(extent)] on any device.
  virtual void read(const Codec::Extent& extent, std::int64_t first, const std::vector<CodedMatrix>& matrices,
                    const at::Tensor& bytes) const = 0;
  /// A whole matrix [rows, columns] that is encoded in `bytes` on CPU, for programs that decode it to `dtype`: tensors
  /// by end, with the dtypes and shapes that parts() says.
  virtual std::map<std::string, at::Tensor> write(const layout::Shape& shape, const at::Tensor& bytes,
                                                  c10::ScalarType dtype) const = 0;
  /// JSON: what a config.json says of such a folder. `plain`: modules whose weights are numbers.
  virtual std::string config(const std::vector<std::string>& plain, c10::ScalarType dtype) const = 0;
};

/// A Source may be one too: some of its records are in a codec's form.
class CodedSource {
 public:
  virtual ~CodedSource();
  /// The matrices of which a box holds all or a part, in order; none: the record's values are numbers.
  virtual std::vector<CodedMatrix> coded(const layout::Param& param, const layout::Box& box) const = 0;
};

/// coded() of any source.
std::vector<CodedMatrix> coded_in(const layout::Source& source, const layout::Param& param, const layout::Box& box);

}  // namespace nn
CAPSTAN_END_NAMESPACE
