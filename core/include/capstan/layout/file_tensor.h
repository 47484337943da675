#pragma once
#include <capstan/base/box.h>
#include <capstan/base/export.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace layout {

/// Rows of a file's tensor that belong to one record of several fused in it.
struct FusedPart {
  std::int64_t dim = 0;     ///< the record's dimension along which they are fused
  std::int64_t offset = 0;  ///< where this record begins
  std::int64_t whole = 0;   ///< the fused tensor's size there
};

/// Where a record is in a model's published files: part of a tensor, transposed, or just one tensor. GPT-2's q:
/// {"h.0.attn.c_attn.weight", .transposed = true, .part = FusedPart{0, 0, 3 * hidden}}.
struct FileTensor {
  std::string name;  ///< without any of FileMap's prefixes
  /// The file holds the two-dimensional tensor as [in, out] (GPT-2's Conv1D), the record is [out, in].
  bool transposed = false;
  std::optional<FusedPart> part;
  /// The file's dimension i is the record's order[i], before file_shape: gpt-oss has experts' [E, 2, ff, hidden] as
  /// [E, hidden, ff, 2], which file_shape then makes [E, hidden, 2 ff]. Empty: the record's order. Not with
  /// `transposed` or `part`.
  std::vector<std::int64_t> order = {};
  /// The file's shape where the record sees the same elements in other dimensions (BLOOM's QKV, a matrix in the
  /// file and [head, 3, dim, hidden] here); empty: it follows from the record.
  Shape file_shape;
  /// Several tensors that the record stacks, in row-major order of its leading dimensions. For [experts, 2, ff, hidden]
  /// they are the first expert's gate, its up, the second's gate, … Empty: the record is one tensor, `name`. Not with
  /// the fields above.
  std::vector<std::string> stack = {};
  /// The parameter's name in transformers' model, by which peft names adapters, where that is not `name`; without
  /// prefixes too.
  std::string parameter = {};

  /// The record's leading dimensions that count stacked tensors; 0 for one tensor.
  std::size_t stacked_dims(const Shape& record) const;
  /// The shape in which the record sees the file's tensor, before file_shape and transposition.
  Shape fused_shape(const Shape& record) const;
  /// The shape that the file's tensor (each of a stack) must have for a record of this shape.
  Shape expected_shape(const Shape& record) const;
};

/// A model's records in its published files; models give it, loading and export read it.
struct FileMap {
  std::map<std::string, FileTensor> tensors;  ///< by record name
  std::vector<std::string> prefixes;          ///< what files may put before every name ("transformer.")
  /// Ends of names that files may hold and that are ignored: mask buffers (".attn.bias").
  std::vector<std::string> ignored;
  /// Tensors that a file may hold a second time, by the name of the copy: a tied head's is that of the embedding's
  /// table. A copy that is not equal, bit by bit, is refused: the file's model is another one.
  std::map<std::string, std::string> copies = {};

  /// Beginnings of the names of tensors that a folder may hold beside the model's (a vision tower, layers that predict
  /// further tokens): they are never trained, and export writes them again, byte for byte but for codes (decoded).
  std::vector<std::string> kept = {};
  /// Key of the config.json's table that has the model's options ("text_config"); empty: the file itself.
  std::string config_table = {};

  /// Records whose tensors a folder need not have: they begin with initial values then, which is said. A head of values
  /// on a folder that has a head of words is one.
  std::vector<std::string> may_be_absent = {};

  // What only export needs.
  /// config.json's `architectures` ("LlamaForCausalLM"); empty: there are no such files of this model.
  std::string architecture = {};
  /// Names that export writes without the first prefix, which all others get.
  std::vector<std::string> unprefixed = {"lm_head.weight"};
  /// Options that a config.json does not have, or not at their current values.
  std::vector<std::string> left_out = {};
  /// What else it says, key -> JSON: {"embd_pdrop", "0.1"}.
  std::map<std::string, std::string> more = {};

  /// The name under which transformers' causal-LM class has the tensor: with the first prefix, but for
  /// those in `unprefixed`.
  std::string published(const std::string& name) const;
};

}  // namespace layout
CAPSTAN_END_NAMESPACE
