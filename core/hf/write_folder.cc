#include "hf/write_folder.h"

#include <capstan/base/counted.h>
#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <set>

#include "checkpoint/decoded_source.h"
#include "checkpoint/whole_folder.h"
#include "comm/agree.h"
#include "hf/coded_folder.h"
#include "hf/config_json.h"
#include "hf/hf_export.h"
#include "hf/merged_source.h"
#include "job/assemble.h"
#include "job/exporters.h"
#include "job/packed_forms.h"
#include "job/sections.h"

namespace capstan::hf {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t largest_file = 5'000'000'000;
constexpr std::int64_t smallest_share = 1'000'000'000;  // below this, sharing out is not worth more files

std::optional<c10::ScalarType> dtype_called(const std::string& name) {
  if (name == "fp32") return c10::kFloat;
  if (name == "bf16") return c10::kBFloat16;
  if (name == "fp16") return c10::kHalf;
  return {};
}

TokenIds ids_of(const tokenizer::Tokenizer* tokenizer) {
  TokenIds ids;
  if (!tokenizer) return ids;
  const auto prefix = tokenizer->prefix_ids();
  if (!prefix.empty()) ids.begin = prefix.front();
  for (std::int64_t id = 0; id < tokenizer->vocab_size(); ++id) {
    if (tokenizer->is_end(id)) ids.ends.push_back(id);
  }
  ids.pad = tokenizer->pad_id();
  return ids;
}

// What a model around a text model reads images and sounds by.
void copy_processors(const fs::path& original, const fs::path& folder) {
  for (const char* name : {"processor_config.json", "preprocessor_config.json", "image_processor_config.json",
                           "video_preprocessor_config.json", "feature_extractor_config.json", "chat_template.json"}) {
    if (is_there(original / name) && !is_there(folder / name)) write_file(folder / name, read_file(original / name));
  }
}

// Writes all that is not weights, and says so.
void write_descriptions(const ModelToWrite& model, const layout::FileMap& map, const std::string& quantization,
                        const fs::path& folder, WrittenModel& written) {
  const fs::path original(model.plugins.model_options->path.value_or(""));
  const auto config = original.empty() ? std::string() : read_file(original / "config.json");
  auto text = config_json(
      {model.plugins.model->options, map, config, ids_of(model.tokenizer.object.get()), written.dtype, quantization});
  // Where there is the newer file, other programs look there for what ends an answer.
  const auto generation = original / "generation_config.json";
  if (!original.empty() && is_there(generation)) {
    write_file(folder / generation.filename(),
               with_answer_ends(read_file(generation), model.answer_ends, written.added_ends));
  } else {
    text = with_answer_ends(text, model.answer_ends, written.added_ends);
  }
  write_file(folder / "config.json", text);
  written.has_tokenizer = model.tokenizer.save(folder);
  if (!map.config_table.empty()) copy_processors(original, folder);
}

HfWeights weights_of(const ModelToWrite& model, const session::ExportForm& form, int world_size) {
  HfWeights weights;
  weights.records = job::records_of(model.units);
  weights.map = model.plugins.model->object->file_map();
  weights.merged = form.merge;
  if (form.merge || !form.quantization.empty()) {
    std::erase_if(weights.records, [&](const auto* record) { return !weights.map.tensors.contains(record->name); });
  }
  weights.dtype = dtype_called(form.dtype);
  const auto precision = job::precision_of(model.train.precision, c10::Device(c10::DeviceType::CPU));
  weights.fallback = precision.master;
  weights.compute = precision.compute;
  weights.shard_bytes = form.shard_bytes;
  if (form.shard_bytes == 0) {
    std::int64_t elements = 0;
    for (const auto* record : weights.records) elements += layout::numel(record->shape);
    const auto bytes = elements * static_cast<std::int64_t>(c10::elementSize(weights.dtype.value_or(weights.fallback)));
    weights.shard_bytes = std::clamp(bytes / world_size, smallest_share, largest_file);
  }
  return weights;
}

std::vector<nn::WeightPtr> weights_in(const std::vector<nn::Unit*>& units) {
  std::vector<nn::WeightPtr> all;
  for (auto* unit : units) all.insert(all.end(), unit->weights().begin(), unit->weights().end());
  return all;
}

// The codecs that write this form of files.
nn::Codecs codecs_for(const std::string& form, nn::Codecs codecs) {
  if (form.empty()) return {};
  std::erase_if(codecs, [&](const auto& item) { return item.second->form() != form; });
  CAPSTAN_ASSERT(!codecs.empty());
  return codecs;
}

// What config.json says of codes in the files; empty: all are numbers.
std::string quantization_of(const HfWriter& writer, const nn::Codecs& codecs, c10::ScalarType compute) {
  if (codecs.empty()) return {};
  if (!writer.has_codes()) {
    throw Error(cat("no tensor of this model's files can be written as \"", codecs.begin()->second->form(), "\""),
                "leave out --quantization: what was kept so is written as numbers");
  }
  return codecs.begin()->second->files_config(writer.plain_modules(), compute);
}

// What to do where no file has the numbers of frozen weights.
std::string without_numbers(const job::Plugins& plugins) {
  const auto options = job::export_options(plugins.strategies);
  return cat(options.empty() ? "" : cat("export only the adapters (", options, "), or "),
             "train from a model's folder (model.path)");
}

struct Original {
  std::unique_ptr<FolderSource> names;
  std::unique_ptr<CodedFolder> frozen;
};

// The model's folder, if it came from one, and what is written of it in another form than numbers.
Original open_original(const ModelToWrite& model, HfWeights& weights, const nn::Codecs& codecs,
                       const std::string& form) {
  Original original;
  weights.codecs = codecs_for(form, codecs);
  const auto& path = model.plugins.model_options->path;
  if (!path && !weights.codecs.empty()) {
    throw Error(cat("this run began with random values, and no file has those that it kept as \"", form, "\""),
                without_numbers(model.plugins));
  }
  if (!path) return original;
  original.names = std::make_unique<FolderSource>(*path, weights.map);
  original.frozen =
      std::make_unique<CodedFolder>(FolderToOpen{*path, weights.map, {}, codecs, model.plugins.packed_forms});
  weights.original = original.names.get();
  weights.frozen = original.frozen.get();
  return original;
}

// One step of all ranks: they continue when each of them is done.
template <class Step>
void together(comm::Communicator& communicator, bool mine, const Step& step) {
  comm::agree(communicator, "writing the model's folder", [&] {
    if (mine) step();
    return std::string();
  });
}

// A folder that the model came from has the head's name.
std::string misnamed_head(const job::Plugins& plugins, const std::vector<nn::Unit*>& units,
                          const layout::FileMap& map) {
  return plugins.model_options->path ? std::string() : hf::misnamed_head(units, map);
}

// How else a run is written whose records have no place in the model's files.
std::string otherwise(const job::Plugins& plugins, const std::vector<nn::Unit*>& units) {
  const auto options = job::export_options(plugins.strategies);
  if (job::adapters_of(units).empty()) return options.empty() ? "" : cat("write it with ", options);
  return options.empty() ? "add its adapters into it with --merge"
                         : cat("write its adapters with ", options, ", or add them into it with --merge");
}

// Why no class of transformers is this model; empty: one is.
std::string without_class(const layout::FileMap& map) {
  if (map.config_table.empty() || !map.architecture.ends_with("ForSequenceClassification")) return {};
  return "the model around its text model has no class with a head of values";
}

// Throws Error where the folder would not be this model.
void refuse_unfaithful(const ModelToWrite& model, const session::ExportForm& form) {
  constexpr auto what = "this model cannot be written as a Hugging Face folder: ";
  if (const auto reason = without_class(model.plugins.model->object->file_map()); !reason.empty())
    throw Error(what + reason, "train from a folder of the text model alone");
  if (form.merge || !form.quantization.empty()) {  // adapters are left out
    const auto reason = misnamed_head(model.plugins, model.units, model.plugins.model->object->file_map());
    if (!reason.empty()) throw Error(what + reason, "correct the model plugin's file_map()");
  } else if (const auto reason = not_exportable(model.plugins, model.units); !reason.empty()) {
    throw Error(what + reason, otherwise(model.plugins, model.units));
  }
}

}  // namespace

std::string not_exportable(const job::Plugins& plugins, const std::vector<nn::Unit*>& units) {
  const auto map = plugins.model->object->file_map();
  if (map.architecture.empty()) return cat("model plugin ", plugins.model->name, " has no Hugging Face architecture");
  if (auto reason = without_class(map); !reason.empty()) return reason;
  const auto names = without_place(job::records_of(units), map);
  if (names.empty()) return misnamed_head(plugins, units, map);
  return cat(
      names.front(),
      names.size() > 1 ? cat(" and ", counted(names.size() - 1, "more record has", "more records have")) : " has",
      " no place in its files");
}

WrittenModel write_folder(const ModelToWrite& model, layout::Source& values, const fs::path& folder,
                          const session::ExportForm& form, comm::Communicator& communicator) {
  refuse_unfaithful(model, form);
  const auto& world = communicator.world();
  auto weights = weights_of(model, form, world.size);
  const auto original = open_original(model, weights, job::codecs_of(weights_in(model.units)), form.quantization);
  weights.values = &values;
  checkpoint::DecodedSource base(weights.frozen ? *weights.frozen : values, model.units, weights.compute,
                                 without_numbers(model.plugins));
  MergedSource merged(base, values, job::adapters_of(model.units));
  if (form.merge) weights.values = &merged;
  const HfWriter writer(weights);
  WrittenModel written{folder, writer.bytes(), writer.files(), c10::getDtypeNames(writer.dtype()).first, false};
  const auto temporary = checkpoint::temporary_of(folder);
  const bool first = world.rank == 0;
  together(communicator, first, [&] {
    checkpoint::make_temporary(folder);
    const auto quantization = quantization_of(writer, weights.codecs, weights.compute);
    write_descriptions(model, weights.map, quantization, temporary, written);
  });
  together(communicator, true, [&] { writer.write(temporary, world.rank, world.size); });
  together(communicator, first, [&] {
    writer.write_index(temporary);
    checkpoint::put_in_place(folder);
  });
  return written;
}

}  // namespace capstan::hf
