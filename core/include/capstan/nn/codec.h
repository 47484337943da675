#pragma once
#include <capstan/base/box.h>
#include <capstan/base/export.h>
#include <capstan/layout/source.h>

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

/// Matrices of a model's folder that another program packed: how they are recognised, for a codec that reads them or to
/// say which strategy has one.
struct PackedForm {
  std::string name;    ///< Codec::form(): what `capstan export --quantization` calls it
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

/// Has the values of a weight held or moved in fewer bytes. A strategy sets one on a weight in structure(), and
/// capabilities() says what it does with which; the functions of a capability are below its heading, and a codec
/// defines those of its own. Where none of them applies, such as that of frozen weights to one that is trained, the
/// weight is like any other.
///
/// A rank's shard of a record is encoded on its own, and stands for the values that it would stand for as part of the
/// whole record: what is learnt does not depend on how many ranks share it.
class Codec {
 public:
  virtual ~Codec();

  struct Capabilities {
    /// It keeps frozen weights: the shard engine holds, shards and gathers bytes, and decodes them into the weight that
    /// a unit computes with, shortly before it does. Shards are rows that begin at multiples of grain() in their
    /// matrix, so that some ranks have fewer than others, or none.
    bool packs = false;
    /// It packs rows, a byte an element and a scale for each, with which units compute as they are: the weight that
    /// layers see is uint8 and has the usual shape. The shard engine shards, gathers and offloads it as it would the
    /// values, and keeps it on each rank where it would keep those; a rank's shard is whole rows, however many.
    /// Matrices are rows then: stacked() is all dimensions but the last.
    bool computes_with_rows = false;
    /// It has trained weights gathered in a byte an element, with one scale, from shards whose masters stay what they
    /// are: each rank encodes its shard, and units compute with the bytes of all ranks. The weight that layers see has
    /// the compute dtype, the usual shape and a gradient, but no memory: who multiplies with it asks the codec. Where
    /// nothing is gathered the weight is one like any other, and bind_gathered() is not called. All weights of a model
    /// that are gathered so have codecs of one kind.
    bool gathers = false;
    /// It packs, and knows files of another program that hold what it keeps: no bit changes on the way from and to
    /// them.
    bool has_files = false;
  };
  virtual Capabilities capabilities() const = 0;
  /// For messages: its strategy.
  virtual std::string name() const = 0;
  /// For messages: what a user changes so that a weight is held and moved as numbers, such as
  /// `set strategy.mine.store = "bf16"`. A sentence may continue after it: ", or …".
  virtual std::string fix() const = 0;

  /// A rank's shard of a record: `matrices`, or equal parts of them, with `elements` each, in row-major order.
  struct Extent {
    std::int64_t matrices = 1;  ///< matrices of which the rank has something
    std::int64_t elements = 0;  ///< elements that it has of each
    bool is_part = false;       ///< other ranks hold the rest of each matrix
    /// Where a part has some columns of its rows: how many. 0: it has whole rows.
    std::int64_t columns = 0;
    std::int64_t of_columns = 0;    ///< columns of the whole rows then
    std::int64_t first_column = 0;  ///< the first that it has
    std::int64_t numel() const { return matrices * elements; }
    /// Elements of a matrix from this part's first row to its last, other ranks' columns included.
    std::int64_t span() const { return columns == 0 ? elements : elements / columns * of_columns; }
  };
  /// Adds up tensors (float64, on the values' device) over ranks, in place. Where several ranks hold the same part,
  /// each counts; every part has as many holders.
  struct Sum {
    using Add = std::function<void(const at::Tensor&)>;
    Sum() = default;
    Sum(Add add) : all(add), columns(std::move(add)) {}
    Sum(Add over_all, Add over_columns) : all(std::move(over_all)), columns(std::move(over_columns)) {}
    Add all;      ///< over the ranks that share the record
    Add columns;  ///< over those that have columns of the same rows
  };

  // packs

  /// Leading dimensions of the record that count matrices (experts), each of which is encoded on its own.
  virtual std::size_t stacked() const;
  /// How many elements of a matrix, in row-major order, share something that the codec keeps: data ranks' shards are
  /// cut at multiples of it.
  virtual std::int64_t grain() const { return 1; }
  /// Why this cannot be encoded, as the end of a sentence; empty: it can. Asked of what a rank computes with, before
  /// data ranks share it.
  virtual std::string refusal(const Extent&) const { return {}; }
  /// The size of the encoded extent; a multiple of 16.
  virtual std::int64_t bytes(const Extent& extent) const;
  /// Encodes `values` [matrices, elements], contiguous with a floating-point dtype, to `bytes` [bytes(extent)] uint8 on
  /// the same device. Calls each of `sum` as often on all ranks, and only where the extent is a part, or has a part of
  /// the columns. A part may have no elements; the parts with other columns of its rows then have none either, and all
  /// of them leave out sum.columns.
  virtual void encode(const Extent& extent, const at::Tensor& values, const at::Tensor& bytes, const Sum& sum) const;
  /// The way back, to `values` [matrices, elements] whose rows are contiguous. Queued on the current stream.
  virtual void decode(const Extent& extent, const at::Tensor& bytes, const at::Tensor& values) const;

  // computes_with_rows

  /// Encodes `values` [n, columns], contiguous with a floating-point dtype, to `bytes` [n, columns] uint8 on the same
  /// device. Returns their scales, [n] float32. Ranks that compute with other columns of these rows make the same
  /// calls.
  virtual at::Tensor encode_rows(const at::Tensor& values, const at::Tensor& bytes) const;
  /// The scales of all rows of the weight that this rank computes with, [rows] on its device. Called whenever the
  /// weight has been filled; all ranks' rows are there, gathered or not.
  virtual void keep_scales(const at::Tensor& scales);

  // gathers: on the training thread

  /// The scales of weights with these largest magnitudes, which are of all ranks' elements in the compute dtype: [n]
  /// float32 both. Not finite for what is not.
  virtual at::Tensor scales_of(const at::Tensor& largest) const;
  /// `values` [n] of the compute dtype, n a multiple of 16, to `bytes` [n] uint8 on the same device. `largest`: [1].
  /// Queued on the current stream. An element's byte depends on nothing but the element and `largest`.
  virtual void encode_to_gather(const at::Tensor& values, const at::Tensor& largest, const at::Tensor& bytes) const;
  /// What units will compute with: uint8 of the weight's shape on this rank, whose memory is there while the weight is
  /// gathered, and its scale [1], at whole 16 bytes, which each update writes again. In a dry run meta tensors.
  virtual void bind_gathered(at::Tensor bytes, at::Tensor scale);

  // has_files

  struct FilePart {
    std::string end;                                ///< end of the tensor's name
    c10::ScalarType dtype = c10::ScalarType::Byte;  ///< its dtype in the file
    layout::Shape shape;                            ///< its shape there
  };
  /// The form's name, as `capstan export --quantization` has it.
  virtual std::string form() const;
  /// The tensors of a matrix [rows, columns]; the first has no end.
  virtual std::vector<FilePart> file_parts(const layout::Shape& shape) const;
  /// Throws Error naming file and tensor for a matrix that cannot be taken as it is.
  virtual void check_matrix(const CodedMatrix& matrix) const;
  /// An extent's part of `matrices`, whose first row begins with element `first` of each, to `bytes` [bytes(extent)] on
  /// any device.
  virtual void read_matrices(const Extent& extent, std::int64_t first, const std::vector<CodedMatrix>& matrices,
                             const at::Tensor& bytes) const;
  /// A whole matrix [rows, columns] that is encoded in `bytes` on CPU, for programs that decode it to `dtype`: tensors
  /// by end, with the dtypes and shapes that file_parts() says.
  virtual std::map<std::string, at::Tensor> write_matrix(const layout::Shape& shape, const at::Tensor& bytes,
                                                         c10::ScalarType dtype) const;
  /// JSON: what a config.json says of such a folder. `plain`: modules whose weights are numbers.
  virtual std::string files_config(const std::vector<std::string>& plain, c10::ScalarType dtype) const;

 private:
  [[noreturn]] void lacks(const char* function) const;
};

/// Codecs by the names of the records that they keep.
using Codecs = std::map<std::string, std::shared_ptr<const Codec>>;

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
