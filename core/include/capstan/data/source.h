#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/monitor/monitor.h>
#include <capstan/tokenizer/tokenizer.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace data {

/// Values that samples carry besides their tokens: what they are called, and how many there are.
struct FieldSpec {
  enum class Type { int64, float32 };
  enum class Per { token, sequence, sample };
  std::string name;
  Type type = Type::int64;
  Per per = Per::sample;

  bool operator==(const FieldSpec&) const = default;
};

/// A sample's values of a field, of its type: one, one for each sequence, or one for each token, sequence after
/// sequence.
using FieldValues = std::variant<std::vector<std::int64_t>, std::vector<float>>;

/// The field that says which of SampleForm::sources a sample is from: its index, int64, one a sample.
inline constexpr const char* source_field = "source";

/// What all samples of a source have in common.
struct SampleForm {
  std::int64_t sequences = 1;  ///< a sample's: 2 for an answer that is preferred and one that is not
  std::vector<FieldSpec> fields = {};
  /// What the sequences are to each other, such as "a preferred answer and a rejected one". Only an objective that
  /// knows this meaning (Plan::meaning) may learn them. Empty: each is a text to learn.
  std::string meaning = {};
  /// Names of what the samples are from, where a plugin gives those of several; `fields` then has source_field.
  std::vector<std::string> sources = {};

  bool is_plain() const { return sequences == 1 && fields.empty(); }
};

/// Tokens that the model sees one after another.
struct Sequence {
  std::vector<std::int64_t> tokens;  ///< prompt, then answer, then the end token
  std::vector<bool> is_target;       ///< per token: does predicting it bear loss? Same length as tokens
};

/// One sample: a sequence, or as many as the source's SampleForm says.
struct Sample {
  std::vector<std::int64_t> tokens;      ///< the first sequence, as in Sequence
  std::vector<bool> is_target;           ///< …
  std::int64_t prompt_length = 0;        ///< tokens[0, prompt_length) is what generation starts from; 0: no question
  std::string id;                        ///< the file's own id of the question
  std::vector<std::string> references;   ///< accepted answers, for scoring
  std::vector<Sequence> others = {};     ///< the sequences after the first
  std::vector<FieldValues> fields = {};  ///< one for each of SampleForm::fields, in their order
  /// Where further documents begin among `tokens`, ascending: with data.packing each sees itself alone. Plain forms
  /// only.
  std::vector<std::int64_t> begins = {};
};

/// A sequence of a sample that stays where it is.
struct SequenceView {
  const std::vector<std::int64_t>& tokens;
  const std::vector<bool>& is_target;
};
/// All of a sample's sequences, the first one first. The sample must outlive them.
std::vector<SequenceView> sequences_of(const Sample& sample);

enum class Split { train, eval };

class SampleOrder;
struct OrderRequest;

/// What core tells a source when it opens it.
struct SplitRequest {
  Split split = Split::train;
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer;
  std::int64_t max_length = 0;        ///< no sample has more tokens than this
  std::int64_t vocab_size = 0;        ///< the model's: all ids are below it
  std::string set = {};               ///< one of Data::evaluation_sets(); empty: the one that has no name
  std::string tokenizer_folder = {};  ///< where its files are, else model_folder; may be empty
  /// model.path's folder; empty: the model begins with random values. Token caches depend on the bytes of its tables
  /// and texts (.json, .jinja, .model and .txt), which a source may therefore read.
  std::string model_folder = {};
  std::vector<std::string> tokenizer_files = {};  ///< what the tokenizer was read from; token caches depend on them
};

/// Samples by index. Core owns their order, batches and the cursor; a source only answers.
/// get() is called from one thread at a time, possibly not the thread that opened it.
class DataSource {
 public:
  virtual ~DataSource();
  virtual std::int64_t size() const = 0;
  /// 0 <= index < size(). Throws Error for data that is wrong only in that sample.
  virtual Sample get(std::int64_t index) const = 0;
  /// The same sample for generation, which starts from its first `prompt_length` tokens and ignores the tokens after
  /// them. A source that cuts samples to max_length cuts the prompt to at most `most` tokens (and at most max_length)
  /// here, whatever the answer is: a cut that depended on the answer's length would leak it. Throws Error if even the
  /// shortest prompt is longer. get() by default.
  virtual Sample question(std::int64_t index, [[maybe_unused]] std::int64_t most) const { return get(index); }
  /// Scores of one generated answer (each in 0…100, "exact_match", "f1", …); core averages them over the split.
  /// `text` is the continuation up to the end token, one of end_ids() or answer_end(). None by default.
  virtual monitor::Values score(const Sample&, const std::string& /*text*/) const { return {}; }
  /// Where the text of an answer that is being generated ends: nothing after it counts. npos, the default: not yet.
  virtual std::size_t answer_end(std::string_view) const { return std::string_view::npos; }
  /// More ids that end an answer than the tokenizer's: a template's end of a turn that has no text. None by default.
  virtual std::vector<std::int64_t> end_ids() const { return {}; }
  /// What else samples depend on than options and files that these or the request name, for token caches and resumes.
  /// Experimental.
  virtual std::string content() const { return {}; }
  /// The order in which training sees the samples (capstan/data/order.h). Null, the default: each epoch sees all of
  /// them once, shuffled if the configuration says so.
  virtual std::unique_ptr<SampleOrder> order(const OrderRequest& request) const;
};

/// What a data plugin is: opens its splits.
class Data {
 public:
  virtual ~Data();
  /// Checks files and sizes without reading samples into tokens; faults are added, nothing is thrown.
  virtual void check(Diagnostics& diagnostics) const = 0;
  /// Opens a split; null when the configuration names none (an absent eval file). Throws Error on broken files.
  virtual std::shared_ptr<DataSource> open(const SplitRequest& request) const = 0;
  /// The longest sequence the options ask for; 0 = whatever the model has.
  virtual std::int64_t max_length() const = 0;
  /// How many sequences and which fields every sample has, in each split. Asked before files are opened, so it follows
  /// from the options; nothing is thrown. One sequence and no field by default.
  virtual SampleForm form() const { return {}; }
  /// Evaluation sets that have a name, in the order in which they are evaluated, besides the one that open() gives
  /// without a name. Letters, digits, "_" and "-"; no file is opened for the answer. None by default.
  virtual std::vector<std::string> evaluation_sets() const { return {}; }
  /// Whether samples are made by the tokenizer, whose ids the model must then have. False for a source that makes ids
  /// itself, below SplitRequest::vocab_size. True by default.
  virtual bool uses_tokenizer() const { return true; }
  /// Whether the options name an evaluation split, for `check`; no file is opened for the answer. True by default.
  virtual bool evaluates() const { return true; }
};

}  // namespace data
CAPSTAN_END_NAMESPACE
