#include "records.h"

#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan/monitor_parts/metrics.h>

#include <algorithm>
#include <boost/crc.hpp>
#include <cerrno>
#include <cmath>
#include <protozero/pbf_writer.hpp>

namespace wandb {

using namespace capstan;

namespace {

// Numbers of fields in wandb_internal.proto.
enum Record {
  record_num = 1,
  record_history = 2,
  record_summary = 3,
  record_stats = 7,
  record_metric = 12,
  record_run = 17,
  record_exit = 18,
  record_header = 21,
  record_footer = 22
};
enum Run {
  run_id = 1,
  run_entity = 2,
  run_project = 3,
  run_config = 4,
  run_group = 6,
  run_name = 8,
  run_host = 13,
  run_first_record = 14,
  run_start_time = 17,
  run_resumed = 18
};
enum Item { item_key = 1, item_value = 16 };
enum Update { update = 1 };
enum History { history_item = 1, history_step = 2 };
enum Stats { stats_type = 1, stats_time = 2, stats_item = 3 };
enum Metric { metric_name = 1, metric_glob = 2, metric_step = 4, metric_options = 6 };
enum Options { options_step_sync = 1, options_hidden = 2, options_defined = 3 };
enum Exit { exit_code = 1, exit_runtime = 2 };

constexpr std::size_t block_size = 32768;
constexpr std::size_t header_size = 7;
constexpr char full = 1, first = 2, middle = 3, last = 4;

void add_item(protozero::pbf_writer& parent, protozero::pbf_tag_type field, const std::string& key,
              const std::string& json) {
  protozero::pbf_writer item(parent, field);
  item.add_string(item_key, key);
  item.add_string(item_value, json);
}

void add_time(protozero::pbf_writer& parent, protozero::pbf_tag_type field, double seconds) {
  protozero::pbf_writer time(parent, field);
  time.add_int64(1, static_cast<std::int64_t>(seconds));
  time.add_int32(2, static_cast<std::int32_t>((seconds - std::floor(seconds)) * 1e9));
}

template <class Fill>
std::string message(protozero::pbf_tag_type kind, std::int64_t number, const Fill& fill) {
  std::string bytes;
  {
    protozero::pbf_writer record(bytes);
    record.add_int64(record_num, number);
    protozero::pbf_writer body(record, kind);
    fill(body);
  }  // the writers add lengths when they go
  return bytes;
}

// train/global_step is every chart's horizontal axis.
template <class Append>
void define_metrics(std::int64_t& number, const Append& append) {
  append(message(record_metric, number++, [](auto& metric) {
    metric.add_string(metric_name, "train/global_step");
    protozero::pbf_writer options(metric, metric_options);
    options.add_bool(options_defined, true);
  }));
  append(message(record_metric, number++, [](auto& metric) {
    metric.add_string(metric_glob, "*");
    metric.add_string(metric_step, "train/global_step");
    protozero::pbf_writer options(metric, metric_options);
    options.add_bool(options_step_sync, true);
    options.add_bool(options_defined, true);
  }));
}

void fill_run(protozero::pbf_writer& run, const RunFacts& facts) {
  run.add_string(run_id, facts.id);
  if (!facts.entity.empty()) run.add_string(run_entity, facts.entity);
  run.add_string(run_project, facts.project);
  {
    protozero::pbf_writer config(run, run_config);
    for (const auto& [key, json] : facts.config) add_item(config, update, key, json);
  }
  if (!facts.group.empty()) run.add_string(run_group, facts.group);
  run.add_string(run_name, facts.name);
  run.add_string(run_host, facts.host);
  run.add_int64(run_first_record, facts.first_record);
  add_time(run, run_start_time, facts.start_s);
  if (facts.first_record > 0) run.add_bool(run_resumed, true);
}

}  // namespace

RunLog::RunLog(std::filesystem::path file, const RunFacts& facts)
    : file_(std::move(file)),
      out_(file_, std::ios::binary | std::ios::trunc),
      records_(1),
      rows_(facts.first_record),
      start_s_(facts.start_s) {
  if (!out_) throw FileError(file_, "write", errno);
  const std::string ident(":W&B\xE1\xBE\0", header_size);
  out_.write(ident.data(), static_cast<std::streamsize>(ident.size()));
  offset_ = ident.size();
  append(message(record_header, records_++, [](auto& header) {
    protozero::pbf_writer version(header, 1);
    version.add_string(1, "0.22.3");  // the version of wandb that writes such records
    version.add_string(2, "0.10.0");
  }));
  append(message(record_run, records_++, [&](auto& run) { fill_run(run, facts); }));
  define_metrics(records_, [this](const std::string& bytes) { append(bytes); });
}

void RunLog::history(double now_s, const monitor::Values& values) {
  const auto row = rows_++;
  append(message(record_history, records_++, [&](auto& history) {
    for (const auto& [name, number] : values) add_item(history, history_item, name, monitor::json_number(number));
    add_item(history, history_item, "_step", std::to_string(row));
    add_item(history, history_item, "_timestamp", monitor::json_number(now_s));
    add_item(history, history_item, "_runtime", monitor::json_number(now_s - start_s_));
    protozero::pbf_writer step(history, history_step);
    step.add_int64(1, row);
  }));
}

void RunLog::stats(double now_s, const monitor::Values& values) {
  append(message(record_stats, records_++, [&](auto& stats) {
    stats.add_enum(stats_type, 0);
    add_time(stats, stats_time, now_s);
    for (const auto& [name, number] : values) add_item(stats, stats_item, name, monitor::json_number(number));
  }));
}

void RunLog::summary(const Items& items) {
  append(message(record_summary, records_++, [&](auto& summary) {
    for (const auto& [key, json] : items) add_item(summary, update, key, json);
  }));
}

void RunLog::ended(double now_s, int code) {
  append(message(record_exit, records_++, [&](auto& exit) {
    exit.add_int32(exit_code, code);
    exit.add_int32(exit_runtime, static_cast<std::int32_t>(now_s - start_s_));
  }));
  std::string footer;  // an empty message, which a nested writer would leave out
  protozero::pbf_writer record(footer);
  record.add_int64(record_num, records_++);
  record.add_message(record_footer, std::string());
  append(footer);
}

// A record that does not fit into what is left of a block continues in the next ones; fewer than 7 bytes are left
// empty.
void RunLog::append(const std::string& record) {
  std::string_view rest = record;
  bool begun = false;
  do {
    auto room = block_size - offset_ % block_size;
    if (room < header_size) {
      const std::string empty(room, '\0');
      out_.write(empty.data(), static_cast<std::streamsize>(empty.size()));
      offset_ += room;
      room = block_size;
    }
    const auto piece = rest.substr(0, std::min(rest.size(), room - header_size));
    rest.remove_prefix(piece.size());
    frame(piece, rest.empty() ? (begun ? last : full) : (begun ? middle : first));
    begun = true;
  } while (!rest.empty());
  out_.flush();
  if (!out_) throw FileError(file_, "write", errno);
}

void RunLog::frame(std::string_view piece, char type) {
  boost::crc_32_type sum;
  sum.process_byte(static_cast<unsigned char>(type));
  sum.process_bytes(piece.data(), piece.size());
  std::string head;
  for (unsigned shift = 0; shift < 32; shift += 8) head += static_cast<char>((sum.checksum() >> shift) & 0xFFU);
  head += static_cast<char>(piece.size() & 0xFFU);
  head += static_cast<char>(piece.size() >> 8U);
  head += type;
  out_.write(head.data(), static_cast<std::streamsize>(head.size()));
  out_.write(piece.data(), static_cast<std::streamsize>(piece.size()));
  offset_ += head.size() + piece.size();
}

}  // namespace wandb
