#include "ranks/rank_table.h"

#include <capstan/base/counted.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>

#include "ranks/start.h"

namespace capstan::ranks {
namespace {

std::string backend_of(const Rank& rank) { return rank.communicator->backend(c10::Device(rank.device.kind)); }

}  // namespace

std::vector<RankRow> meet_all(const Rank& rank) {
  const auto own = Json::array({rank.launch.world.host, rank.device.description, rank.cpus.mask, rank.cpus.nodes,
                                rank.cpus.threads, rank.device.identity});
  std::vector<RankRow> rows;
  std::vector<std::string> identities;
  for (const auto& text : rank.communicator->exchange(own.dump())) {
    const auto said = Json::parse(text);
    rows.push_back(
        {said[0].text(), said[1].text(), said[2].text(), said[3].text(), said[4].get<int>(), said[5].text()});
    identities.push_back(rows.back().identity);
  }
  if (rank.device.kind == "cuda") gpus::check_distinct_gpus(identities);
  return rows;
}

std::string start_text(const Rank& rank) {
  const auto& world = rank.launch.world;
  std::string out = cat("connected ", world.size, "/", world.size, ": ", counted(world.size, "rank"), " on ",
                        counted(world.nodes, "node"), " by ", world.launcher, ", backend ", backend_of(rank),
                        ", rendezvous ", rank.communicator->rendezvous(), "\n");
  if (!rank.settings.all.empty()) out += cat("environment: ", ranks::text(rank.settings.all), "\n");
  std::vector<std::vector<std::string>> cells{{"rank", "host", "GPU", "CPUs", "NUMA", "threads"}};
  for (const RankRow& row : rank.rows) {
    cells.push_back({std::to_string(cells.size() - 1), row.host, row.gpu.empty() ? "-" : row.gpu, row.cpus,
                     row.numa.empty() ? "-" : row.numa, std::to_string(row.threads)});
  }
  return out + table_text(cells);
}

std::string start_json(const Rank& rank) {
  const auto& world = rank.launch.world;
  Json json{{"world_size", world.size},
            {"nodes", world.nodes},
            {"launcher", world.launcher},
            {"backend", backend_of(rank)},
            {"rendezvous", rank.communicator->rendezvous()},
            {"environment", rank.settings.all},
            {"ranks", Json::array()}};
  for (const RankRow& row : rank.rows) {
    json["ranks"].push_back({{"rank", json["ranks"].size()},
                             {"host", row.host},
                             {"gpu", row.gpu},
                             {"cpus", row.cpus},
                             {"numa", row.numa},
                             {"threads", row.threads}});
  }
  return json.dump(2) + "\n";
}

}  // namespace capstan::ranks
