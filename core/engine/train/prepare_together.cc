#include "train/prepare_together.h"

#include <capstan/base/error.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "data/token_cache.h"
#include "job/settle.h"
#include "launch/error_report.h"
#include "plugin/hints.h"
#include "train/token_caches.h"

namespace capstan::train {
namespace {

// What a rank says of its work so far; anything else is a fault, and nothing means that it is done.
constexpr const char* unfinished = "unfinished";
constexpr const char* asked = "asked to stop";

// One rank's work at a split's cache.
class CacheWork {
 public:
  CacheWork(const CachedSplit& split, std::shared_ptr<const data::DataSource> source, const comm::World& world,
            const ShowProgress& show)
      : split_(split),
        source_(std::move(source)),
        begins_(world.local_rank == 0),
        show_(world.rank == 0 ? show : ShowProgress()) {}

  /// Works for a while and says how it stands.
  std::string advance() {
    try {
      if (std::exchange(begins_, false)) builder_.emplace(source_, split_.cache);
      return !builder_ || is_complete() ? "" : unfinished;
    } catch (const Error& error) {
      return launch::error_text(error);
    }
  }

 private:
  // A damaged file is named once.
  bool is_complete() {
    constexpr std::chrono::milliseconds while_others_wait{5000};
    const bool knew = !builder_->damage().empty();
    const bool complete = builder_->advance(while_others_wait);
    if (!knew && !builder_->damage().empty()) log::warning(builder_->damage());
    const bool tokenizes = builder_->tokenizes();
    // A whole one that is soon verified is not worth a line.
    if (show_ && (tokenizes || !complete)) {
      const auto done = builder_->done();
      const auto all = source_->size();
      show_(cat(tokenizes ? "tokenizing " : "verifying the token cache of ", split_.name, ": ", thousands(done), " of ",
                thousands(all)),
            done == all);
    }
    if (complete) builder_.reset();
    return complete;
  }

  const CachedSplit& split_;
  std::shared_ptr<const data::DataSource> source_;
  std::optional<data::TokenCacheBuilder> builder_;
  bool begins_;
  ShowProgress show_;
};

// Tells the others how this rank's work stands; returns whether some rank is not done.
bool somebody_works(const std::string& state, comm::Communicator& communicator) {
  bool stopped = false;
  bool works = false;
  for (const auto& text : communicator.exchange(state)) {
    if (!text.empty() && text != unfinished && text != asked) throw ConfigurationRefused(text);
    stopped = stopped || text == asked;
    works = works || text == unfinished;
  }
  if (stopped) throw step::Stopped();
  return works;
}

}  // namespace

job::Job prepare_together(const setup::JobRequest& request, plugin::Host& host, comm::Communicator& communicator) {
  std::optional<job::Job> job;
  std::string faults;
  const auto rank = communicator.world().rank;
  // All ranks read the same files: what plugins warn of is said once.
  log::configure({}, rank == 0 ? log::Level::warning : log::Level::error, rank);
  try {
    Diagnostics diagnostics;
    job = job::make_job(request, host, diagnostics);
    diagnostics.throw_if_any();
  } catch (const Error& error) {
    faults = launch::error_text(plugin::with_hints(error, host));
  }
  log::configure({}, log::Level::warning, rank);
  const auto all = communicator.exchange(faults);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].empty()) continue;
    const bool everywhere = std::count(all.begin(), all.end(), all[i]) == request.world_size;
    throw ConfigurationRefused(everywhere ? all[i] : all[i] + cat("    on rank ", i, " of ", request.world_size, "\n"));
  }
  if (const auto& note = job->plugins.model->note; request.rank == 0 && !note.empty()) log::warning(note);
  return std::move(*job);
}

void read_token_caches(job::Job& job, const step::Stop& stop, comm::Communicator& communicator,
                       const ShowProgress& show) {
  auto samples = job.samples;
  for (const auto& split : cached_splits(job.config, job.plugins, samples)) {
    auto& source = split.source(samples);
    CacheWork work(split, source, communicator.world(), show);
    for (bool waiting = true; waiting;) {
      auto state = work.advance();
      if (stop.asked() && (state.empty() || state == unfinished)) state = asked;
      waiting = somebody_works(state, communicator);
    }
    source = data::open_cached(source, split.cache);
  }
  job.samples = std::move(samples);
}

}  // namespace capstan::train
