#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/config/options.h>
#include <capstan/decoder/decoder.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace decoder {

// Options that decoders with rotary attention share: Llama's, Mixtral's, Qwen's and those like them. A model's options
// derive from RotaryOptions, set defaults of their own in their constructor, and describe what they have by the
// functions below, which take the model's own table and options. Spellings are a config.json's.

struct RotaryOptions {
  std::int64_t vocab_size = 258;
  std::int64_t hidden_size = 128;
  std::int64_t num_layers = 2;
  std::int64_t num_heads = 4;
  std::optional<std::int64_t> num_kv_heads;
  std::optional<std::int64_t> head_dim;
  std::int64_t ff_dim = 352;
  std::int64_t seq_length = 2048;
  double rms_norm_epsilon = 1e-6;
  double rope_theta = 10000;
  std::string rope_type = "default";
  std::optional<double> rope_factor;
  double rope_low_frequency_factor = 1;
  double rope_high_frequency_factor = 4;
  std::optional<double> rope_fast_turns;
  std::optional<double> rope_slow_turns;
  bool rope_whole_limits = true;
  std::optional<double> rope_attention_factor;
  std::optional<double> rope_mscale;
  std::optional<double> rope_mscale_all;
  std::vector<double> rope_short_factors;
  std::vector<double> rope_long_factors;
  std::int64_t rope_original_length = 8192;
  double partial_rotary_factor = 1;
  std::string activation = "silu";
  bool tie_word_embeddings = false;
  std::int64_t head_values = 0;
  double attention_dropout = 0;
  std::optional<std::int64_t> sliding_window;
  double init_std = 0.02;

  std::int64_t kv_heads() const { return num_kv_heads.value_or(num_heads); }
  /// A head's dimension.
  std::int64_t dim() const { return head_dim.value_or(hidden_size / num_heads); }
  /// sliding_window, where it is shorter than seq_length. spec() does not have it: a model says which blocks use it.
  std::optional<std::int64_t> window() const {
    return sliding_window && *sliding_window < seq_length ? sliding_window : std::nullopt;
  }
  /// How the frequencies are scaled. Of longrope's two lists it is the long one where seq_length is more than
  /// rope_original_length: the same on all ranks and for every batch, where transformers goes by each batch's length.
  nn::RotaryScaling scaling() const;
  /// It turns the part of each head that the options say; `form` says what no option does.
  nn::Rotary rotary(nn::RotaryForm form = {}) const;
  /// The decoder of these sizes: RMS norms before, rotary positions, gated feed-forward layers, no biases.
  Spec spec() const;
};

/// How many of a head's `dim` numbers turn, where that is this share of them; rounded down.
std::int64_t turned_part(std::int64_t dim, double factor);
/// A part that does not turn in pairs.
void check_turned_part(std::int64_t dim, double factor, const std::string& where, Diagnostics& diagnostics);

/// Rotary positions of part of each head, not scaled, for decoders that have no RotaryOptions: GPT-NeoX's and those
/// like it. A model's options derive from both.
struct RotaryPartOptions {
  double rope_theta = 10000;
  double partial_rotary_factor = 0.25;

  nn::Rotary rotary(std::int64_t dim) const;
};

void describe_rotary_part(config::OptionTable<RotaryPartOptions> table);
/// Heads of `dim` numbers.
void check_rotary_part(const config::Options<RotaryPartOptions>& options, std::int64_t dim, Diagnostics& diagnostics);

/// `ff` is what ff_dim is the width of.
void describe_rotary_sizes(config::OptionTable<RotaryOptions> table, const std::string& ff);
/// rope_theta, and the scalings `types`, which `doc` explains. `rope`: the table of these in a config.json of
/// transformers 5; `unscaled`: another one there, of blocks with the same base and no scaling.
void describe_rotary_positions(config::OptionTable<RotaryOptions> table, std::vector<std::string> types,
                               const std::string& doc, const std::string& rope = "rope_parameters.",
                               const std::string& unscaled = {});
/// Theta and the scaling that divides all frequencies by rope_factor, for families that know no other.
void describe_linear_scaling(config::OptionTable<RotaryOptions> table, const std::string& rope = "rope_parameters.");
/// rope_theta, and every scaling that nn::Rotary has.
void describe_rotary_scaling(config::OptionTable<RotaryOptions> table, const std::string& rope = "rope_parameters.",
                             const std::string& unscaled = {});
/// partial_rotary_factor, for families that turn a part of each head. Their file_keys need rotary_keys({"partial_…"}).
void describe_partial_rotary(config::OptionTable<RotaryOptions> table);
/// rope_theta, and longrope, as Phi-3's files spell it: transformers 4 refuses a table with more than its three keys.
void describe_longrope(config::OptionTable<RotaryOptions> table);
/// sliding_window; `which`: the blocks that are limited to it.
void describe_window(config::OptionTable<RotaryOptions> table, const std::string& which);
/// head_values, for families whose published classes have a head of values.
void describe_head_values(config::OptionTable<RotaryOptions> table);
/// `activation` is the one that the family has, `key` what a config.json calls the option, `epsilon` what it calls the
/// norms'.
void describe_rotary_rest(config::OptionTable<RotaryOptions> table, const std::string& activation = "silu",
                          const std::string& key = "hidden_act", const std::string& epsilon = "rms_norm_eps");

/// Heads that do not fit hidden_size or each other.
void check_rotary(const config::Options<RotaryOptions>& options, Diagnostics& diagnostics);
/// Options of scalings that do not fit each other; for those that describe_rotary_scaling has described.
void check_rotary_scaling(const config::Options<RotaryOptions>& options, Diagnostics& diagnostics);
/// The same for describe_longrope.
void check_longrope(const config::Options<RotaryOptions>& options, Diagnostics& diagnostics);

/// What a config.json of such a model says besides its options, and old files' buffers.
void describe_rotary_files(const RotaryOptions& options, layout::FileMap& map);
/// Where head_values is set: `map` is that of the class `architecture`, such as "LlamaForSequenceClassification".
void describe_value_files(const RotaryOptions& options, const std::string& architecture, layout::FileMap& map);
/// The same of the scalings' options.
void describe_rotary_scaling_files(const RotaryOptions& options, layout::FileMap& map);
/// A rotary table of transformers 5, with the options' scaling or without: JSON.
std::string rope_table(const RotaryOptions& options, bool is_scaled);

/// What presets of such models differ in.
struct RotarySizes {
  std::int64_t vocab, hidden, layers, heads, kv_heads, ff, length;
};
config::Preset rotary_preset(const std::string& model_type, const RotarySizes& sizes, double epsilon, double theta,
                             bool tied);

/// Windows in some of the blocks, as Qwen 2 and 3 have them; a model's options derive from both.
struct WindowOptions {
  std::optional<bool> use_sliding_window;
  std::int64_t max_window_layers = 28;
  std::vector<std::string> layer_types;

  /// With a type for each of the `layers`: beyond the list every n-th has full_attention, the others sliding_attention.
  WindowOptions completed(std::int64_t layers, std::int64_t global_every) const;
  /// Whether layer_types names a block that has a window, and windows are in use.
  bool limits_blocks() const;
  /// The blocks of `layers` that see all positions, if others have a window.
  std::set<std::int64_t> blocks_without_window(std::int64_t layers) const;
};

/// A sliding_window that is not set, though `windows` limit blocks to it.
void check_window(const config::Options<RotaryOptions>& options, const WindowOptions& windows,
                  Diagnostics& diagnostics);
/// `families`: which model_type has these options.
void describe_windows_of_blocks(config::OptionTable<WindowOptions> table, const std::string& families);
/// Only layer_types, for families with a rule of their own where it is empty; `about` stands before its doc.
void describe_layer_types(config::OptionTable<WindowOptions> table, const std::string& about = {});
/// layer_types, set at `at`, that do not say for each of the `layers` what it is. False: one is of no known kind.
bool check_kinds_of_blocks(const std::vector<std::string>& layer_types, const std::string& at, std::int64_t layers,
                           Diagnostics& diagnostics);
/// The same of Qwen's options.
void check_layer_types(const config::Options<WindowOptions>& options, std::int64_t layers, Diagnostics& diagnostics);
/// As describe_rotary_files, where the family has these options or not: what each block is, whichever options say so.
void describe_window_files(const RotaryOptions& options, const WindowOptions& windows, bool has_them,
                           layout::FileMap& map);

/// The routers' options of mixtures; a model's options derive from both.
struct RouterOptions {
  std::int64_t num_experts = 8;
  std::int64_t experts_per_token = 2;
  bool router_aux_loss = false;
  double router_aux_loss_coef = 0.001;

  MixtureSpec mixture() const {
    MixtureSpec made;
    made.count = num_experts;
    made.per_token = experts_per_token;
    made.balanced = router_aux_loss;
    made.balance_weight = router_aux_loss_coef;
    return made;
  }
};

/// How many experts there are and compute a token. `file_key`: what a config.json calls the first, where not
/// num_experts.
void describe_experts(config::OptionTable<RouterOptions> table, const std::string& file_key = {});
/// The same, and the routers' loss.
void describe_routers(config::OptionTable<RouterOptions> table, const std::string& file_key = {});
void check_routers(const config::Options<RouterOptions>& options, Diagnostics& diagnostics);

}  // namespace decoder
CAPSTAN_END_NAMESPACE
