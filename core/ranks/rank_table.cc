#include "ranks/rank_table.h"

#include <capstan/base/counted.h>
#include <capstan/base/files.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "ranks/start.h"

namespace capstan::ranks {
namespace {

using Json = nlohmann::ordered_json;

Connections connections_of(const Rank& rank) {
  const auto& world = rank.launch.world;
  Connections made{world.size, world.nodes, world.launcher, "none", rank.communicator->rendezvous(), rank.settings.all};
  if (world.size > 1) made.backend = rank.device.name == "cuda" ? "nccl" : "gloo";
  return made;
}

}  // namespace

std::string RankRow::serialized() const {
  return join({host, gpu, cpus, numa, std::to_string(threads), identity, "."}, "\t");
}

RankRow RankRow::parse(const std::string& text) {
  const auto cells = split(text, '\t');
  RankRow row;
  if (cells.size() < 6) return row;
  row.host = cells[0];
  row.gpu = cells[1];
  row.cpus = cells[2];
  row.numa = cells[3];
  row.threads = std::atoi(cells[4].c_str());
  row.identity = cells[5];
  return row;
}

std::string start_text(const Connections& connections, const std::vector<RankRow>& rows) {
  std::string out = cat("connected ", connections.size, "/", connections.size, ": ", counted(connections.size, "rank"),
                        " on ", counted(connections.nodes, "node"), " by ", connections.launcher, ", backend ",
                        connections.backend, ", rendezvous ", connections.rendezvous, "\n");
  if (!connections.variables.empty()) out += cat("environment: ", launch::text(connections.variables), "\n");
  std::vector<std::vector<std::string>> cells{{"rank", "host", "GPU", "CPUs", "NUMA", "threads"}};
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    const RankRow& row = rows[rank];
    cells.push_back({std::to_string(rank), row.host, row.gpu.empty() ? "-" : row.gpu, row.cpus,
                     row.numa.empty() ? "-" : row.numa, std::to_string(row.threads)});
  }
  return out + table_text(cells);
}

std::string start_json(const Connections& connections, const std::vector<RankRow>& rows) {
  Json json{{"world_size", connections.size},
            {"nodes", connections.nodes},
            {"launcher", connections.launcher},
            {"backend", connections.backend},
            {"rendezvous", connections.rendezvous}};
  json["environment"] = Json::object();
  for (const auto& [name, value] : connections.variables) json["environment"][name] = value;
  json["ranks"] = Json::array();
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    const RankRow& row = rows[rank];
    json["ranks"].push_back({{"rank", rank},
                             {"host", row.host},
                             {"gpu", row.gpu},
                             {"cpus", row.cpus},
                             {"numa", row.numa},
                             {"threads", row.threads}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::vector<RankRow> meet_all(const Rank& rank) {
  const RankRow own{rank.launch.world.host, rank.device.gpu.description, rank.cpus.mask,
                    rank.cpus.nodes,        rank.cpus.threads,           rank.device.gpu.identity};
  std::vector<RankRow> rows;
  std::vector<std::string> identities;
  for (const auto& text : rank.communicator->exchange(own.serialized())) {
    rows.push_back(RankRow::parse(text));
    identities.push_back(rows.back().identity);
  }
  if (rank.device.name == "cuda") launch::check_distinct_gpus(identities);
  return rows;
}

void print_start_table(const Rank& rank) {
  if (!rank.first() || rank.launch.world.size == 1) return;
  terminal::print(start_text(connections_of(rank), rank.rows));
  std::fflush(stdout);
}

void record_start(const Rank& rank, const std::filesystem::path& folder) {
  if (rank.first()) write_file(folder / "launch.json", start_json(connections_of(rank), rank.rows));
}

}  // namespace capstan::ranks
