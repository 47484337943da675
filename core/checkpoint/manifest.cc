#include "checkpoint/manifest.h"

#include <capstan/base/text.h>

#include <nlohmann/json.hpp>

#include "checkpoint/dtype.h"

namespace capstan::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* format_name = "capstan-boxes";

Json to_json(const Records& records) {
  Json out = Json::object();
  for (const auto& [name, record] : records) {
    Json boxes = Json::array();
    for (const auto& entry : record.boxes) {
      boxes.push_back({{"offset", entry.box.offset},
                       {"size", entry.box.size},
                       {"file", entry.file},
                       {"key", entry.key},
                       {"xxh64", entry.xxh64}});
    }
    out[name] = {{"shape", record.shape}, {"dtype", dtype_name(record.dtype)}, {"boxes", std::move(boxes)}};
  }
  return out;
}

// Throws Json exceptions and Error without a place; callers add it.
Records from_json(const Json& json) {
  Records out;
  for (const auto& [name, entry] : json.items()) {
    RecordEntry record;
    record.shape = entry.at("shape").get<layout::Shape>();
    const auto dtype = dtype_of(entry.at("dtype").get<std::string>());
    if (!dtype)
      throw Error(cat("record '", name, "' has dtype ", entry.at("dtype").dump(), ", none of ", dtype_names()));
    record.dtype = *dtype;
    for (const auto& box : entry.at("boxes")) {
      record.boxes.push_back({{box.at("offset").get<layout::Shape>(), box.at("size").get<layout::Shape>()},
                              box.at("file").get<std::string>(),
                              box.at("key").get<std::string>(),
                              box.at("xxh64").get<std::string>()});
      const auto& read = record.boxes.back().box;
      if (!read.fits(record.shape)) {
        throw Error(
            cat("record '", name, "' has shape ", layout::shape_text(record.shape), ", but a box ", read.text()));
      }
    }
    out.emplace(name, std::move(record));
  }
  return out;
}

std::int64_t elements(const RecordEntry& record) {
  std::int64_t sum = 0;
  for (const auto& entry : record.boxes) sum += entry.box.numel();
  return sum;
}

void check_complete(const Records& records) {
  for (const auto& [name, record] : records) {
    if (elements(record) == layout::numel(record.shape)) continue;
    throw Error(cat("the boxes of record '", name, "' hold ", elements(record), " elements, its shape ",
                    layout::shape_text(record.shape), " has ", layout::numel(record.shape)),
                "copy the folder again, with its own manifest");
  }
}

// Boxes inside the shape, none overlapping another, as many elements as the whole: so each element once.
void assert_partition(const RecordEntry& record) {
  for (std::size_t i = 0; i < record.boxes.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      CAPSTAN_ASSERT(layout::intersect(record.boxes[i].box, record.boxes[j].box).numel() == 0);
    }
  }
  CAPSTAN_ASSERT(elements(record) == layout::numel(record.shape));
}

}  // namespace

std::string piece_text(const Records& records) { return to_json(records).dump(); }

Records parse_piece(const std::string& text) { return from_json(Json::parse(text)); }

Records merge_pieces(const std::vector<std::string>& pieces) {
  Records all;
  for (const auto& piece : pieces) {
    for (auto& [name, record] : parse_piece(piece)) {
      const auto [known, is_new] = all.try_emplace(name, record);
      if (is_new) continue;
      CAPSTAN_ASSERT(known->second.shape == record.shape && known->second.dtype == record.dtype);
      auto& boxes = known->second.boxes;
      boxes.insert(boxes.end(), record.boxes.begin(), record.boxes.end());
    }
  }
  for (const auto& item : all) assert_partition(item.second);
  return all;
}

std::string manifest_text(const Records& records, const BoxesInfo& info, int world_size) {
  const Json json{{"format", format_name}, {"version", boxes_format_version}, {"capstan", version()},
                  {"step", info.step},     {"world_size", world_size},        {"records", to_json(records)}};
  return json.dump(1) + "\n";
}

Records parse_manifest(const std::filesystem::path& path, BoxesInfo& info) {
  const auto where = path.string();
  const auto text = read_file(path);
  try {
    const auto json = Json::parse(text);
    if (json.at("format") != format_name)
      throw Error(cat("its format is ", json.at("format").dump(), ", not \"", format_name, "\""));
    const auto number = json.at("version").get<int>();
    if (number != boxes_format_version) {
      throw Error(cat("its format has version ", number, ", this program reads ", boxes_format_version),
                  cat("use the Capstan that wrote it (", json.at("capstan").get<std::string>(), ")"));
    }
    info.step = json.at("step").get<std::int64_t>();
    auto records = from_json(json.at("records"));
    check_complete(records);
    return records;
  } catch (const nlohmann::json::exception& error) {
    throw Error(cat("no valid manifest: ", error.what()), {}, where);
  } catch (const Error& error) {
    const auto& first = error.diagnostics().front();
    throw Error(first.what, first.fix, where);
  }
}

}  // namespace capstan::checkpoint
