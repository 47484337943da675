// Pipeline parallelism (Huang et al. 2019, "GPipe"; Narayanan et al. 2019, "PipeDream"): stages of the model on ranks
// along pp. Schedules are tables: schedules.h, table_file.h.
#include "pipeline_parallel.h"

#include <capstan/base/counted.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cmath>

#include "cut.h"
#include "drawing.h"
#include "schedules.h"

namespace pipeline_parallel {

using namespace capstan;
using layout::Axis;
using P = PipelineParallelOptions;

std::vector<plugin::Saving> PipelineParallelOptions::savings() {
  std::vector<plugin::Saving> list;
  for (const auto* schedule : {"", "interleaved", "zero_bubble"}) {
    for (const int size : {2, 4, 8}) {
      list.push_back(
          {plugin::Saving::By::sharding, cat("cut the model into stages on ", size, " ranks"), {cat("size=", size)}});
      if (*schedule) list.back().options.insert(list.back().options.begin(), cat("schedule=", schedule));
    }
  }
  return list;
}

void PipelineParallelOptions::describe(config::OptionTable<PipelineParallelOptions>& t) {
  t.add("size", &P::size).min(1).required().doc("ranks that compute the model one after the other, some units each");
  t.add("schedule", &P::schedule)
      .choices({"1f1b", "interleaved", "zero_bubble", "dualpipev"})
      .doc(
          "the order of forwards and backwards. 1f1b: one forward, one backward; interleaved: the same with several "
          "stages a rank, whose bubble is shorter by their number; zero_bubble: gradients of weights come later and "
          "fill the bubble, at no more activations; dualpipev: the same with two stages a rank in a V");
  t.add("chunks", &P::chunks).min(0).doc("stages of a rank; 0: 2 with interleaved and dualpipev, otherwise 1");
  t.add("table", &P::table)
      .path()
      .doc(
          "instead of a schedule: a file with a line a rank, such as 0F0,0F1,0B0,0B1, for the micro-batches that it "
          "names (PyTorch's CSV form too)");
  t.add("split", &P::split)
      .doc(
          "the units with which the second and later stages begin, such as [\"blocks.8\", \"blocks.16\"]; [\"auto\"]: "
          "so that the "
          "stage with the most work has as little as possible");
}

void PipelineParallel::mesh(layout::MeshSpec& spec) {
  spec.set(Axis::pp, options_->size, "strategy.pipeline_parallel", options_.where(&P::size));
}

void PipelineParallel::claim(strategy::Claims& claims) const {
  claims.exclusive("axis pp");
  claims.exclusive(strategy::step_program_point);
}

int PipelineParallel::chunks() const {
  if (options_->chunks > 0) return static_cast<int>(options_->chunks);
  return options_->schedule == "interleaved" || options_->schedule == "dualpipev" ? 2 : 1;
}

void PipelineParallel::check_chunks(Diagnostics& diagnostics) const {
  const auto refuse = [&](const std::string& why, const std::string& fix) {
    diagnostics.add(options_.where(&P::chunks), cat(options_.name(&P::chunks), " is ", options_->chunks, ", but ", why),
                    fix);
  };
  if (options_->chunks == 0) return;
  if (options_->table) {
    refuse("the table says how many stages a rank has", "leave it out");
  } else if (options_->schedule == "1f1b" && options_->chunks > 1) {
    refuse("schedule = \"1f1b\" has one stage a rank", "set schedule = \"interleaved\"");
  } else if (options_->schedule == "interleaved" && options_->chunks < 2) {
    refuse("schedule = \"interleaved\" has several stages a rank", "set schedule = \"1f1b\"");
  } else if (options_->schedule == "dualpipev" && options_->chunks != 2) {
    refuse("schedule = \"dualpipev\" has two stages a rank", "leave it out");
  }
}

void PipelineParallel::check_table(const strategy::Facts& facts, Diagnostics& diagnostics) const {
  if (!options_->table) return;
  const auto where = options_.where(&P::table);
  if (options_->schedule != P().schedule) {  // a run's own config.toml sets it to its default
    diagnostics.add(where, cat(options_.name(&P::table), " and ", options_.name(&P::schedule), " are both set"),
                    "leave one of them out");
  }
  const auto& [table, micros] = file();
  const auto name = cat("the table ", *options_->table);
  if (table.ranks() != ranks()) {
    diagnostics.add(
        where,
        cat(name, " is for ", counted(table.ranks(), "rank"), ", and ", options_.name(&P::size), " is ", ranks()),
        cat("set size = ", table.ranks(), ", or give another table"));
  }
  if (facts.trains && micros != facts.accumulation) {
    diagnostics.add(where,
                    cat(name, " is for ", counted(micros, "micro-batch", "micro-batches"),
                        ", and a step of this run has ", facts.accumulation),
                    cat("set train.accumulation = ", micros, ", or give another table"));
  }
}

void PipelineParallel::check(const strategy::Facts& facts, Diagnostics& diagnostics) const {
  if (ranks() == 1) return;  // notes() says what has no effect
  micros_ = facts.trains ? static_cast<int>(facts.accumulation) : 0;
  check_chunks(diagnostics);
  check_table(facts, diagnostics);
}

const FileTable& PipelineParallel::file() const {
  if (!file_) file_ = read_table(*options_->table);
  return *file_;
}

Table PipelineParallel::table_for(int micros, bool trains_products) const {
  if (options_->table) {
    if (file().micros != micros) {
      throw Error(cat("the table ", *options_->table, " is for ", file().micros, " micro-batches, not for ", micros),
                  cat("set train.accumulation = ", file().micros), options_.where(&P::table));
    }
    return file().table;
  }
  const auto& schedule = options_->schedule;
  auto table = schedule == "dualpipev"     ? dual_pipe_v(ranks(), micros)
               : schedule == "zero_bubble" ? zero_bubble(ranks(), chunks(), micros)
                                           : one_forward_one_backward(ranks(), chunks(), micros);
  return trains_products ? table : in_one_part(std::move(table));
}

void PipelineParallel::refuse_too_many(std::size_t units, std::size_t stages) const {
  if (units >= stages) return;
  throw Error(cat("the model has ", counted(units, "unit"), ", too few for ", stages, " stages"),
              "use a smaller size or fewer chunks", options_.where(&P::size));
}

std::vector<std::size_t> PipelineParallel::first_units(const Units& units, std::size_t stages) const {
  const auto where = options_.where(&P::split);
  refuse_too_many(units.size(), stages);
  if (options_->split == std::vector<std::string>{"auto"}) return balanced(costs_of(units), stages);
  if (options_->split.size() + 1 != stages) {
    throw Error(cat(options_.name(&P::split), " names ", counted(options_->split.size(), "unit"), ", and ", stages,
                    " stages have ", stages - 1, " after the first"),
                "name the unit with which each stage but the first begins", where);
  }
  std::vector<std::string> names;
  for (const auto& unit : units) names.push_back(unit->name());
  std::vector<std::size_t> first{0};
  for (const auto& name : options_->split) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      throw Error(cat(options_.name(&P::split), " names '", name, "', and the model's units are ", join(names)),
                  suggestion(name, names), where);
    }
    first.push_back(static_cast<std::size_t>(found - names.begin()));
    if (first.back() <= first[first.size() - 2]) {
      throw Error(cat(options_.name(&P::split), " names '", name,
                      "', which does not come after the unit that the stage before begins with"),
                  "name units in the model's order, and not its first", where);
    }
  }
  return first;
}

strategy::Stages PipelineParallel::stages(const Units& units, const layout::Mesh&) {
  stage_notes_.clear();
  if (ranks() == 1) return {{0}, {0}, [](int, int micros) { return strategy::accumulation(1, micros); }};
  trains_products_ = trains_products(units);
  strategy::Stages stages;
  if (options_->table) {
    stages.positions = file().table.positions;
  } else {
    refuse_too_many(units.size(), static_cast<std::size_t>(ranks()) * static_cast<std::size_t>(chunks()));
    stages.positions = table_for(1, true).positions;
  }
  stages.first_units = first_units(units, stages.positions.size());
  for (std::size_t stage = 0; stage < stages.positions.size(); ++stage) {
    const auto begin = stages.first_units[stage];
    const auto end = stage + 1 < stages.positions.size() ? stages.first_units[stage + 1] : units.size();
    const auto last = end - begin > 1 ? cat(" … ", units[end - 1]->name()) : "";
    stage_notes_.push_back(
        cat("stage ", stage, ", position ", stages.positions[stage], ": ", units[begin]->name(), last));
  }
  struct Made {
    int micros = -1;
    Table table;
  };
  stages.program = [this, made = std::make_shared<Made>()](int position, int micros) {
    if (made->micros != micros) *made = {micros, table_for(micros, trains_products_)};
    return made->table.rows.at(static_cast<std::size_t>(position));
  };
  return stages;
}

std::vector<std::string> PipelineParallel::options_without_effect() const {
  std::vector<std::string> notes;
  const auto add = [&](auto member) {
    if (options_.is_set(member)) notes.push_back(cat("note: ", options_.name(member), " has no effect with size = 1"));
  };
  add(&P::schedule), add(&P::chunks), add(&P::table), add(&P::split);
  return notes;
}

std::vector<std::string> PipelineParallel::notes() const {
  if (ranks() == 1) return options_without_effect();
  auto notes = stage_notes_;
  if (micros_ == 0) return notes;
  const auto table = table_for(micros_, trains_products_);
  const auto [fault, timeline, live] = judge(table, micros_);
  notes.push_back(cat(options_->table ? "the table" : cat("schedule ", options_->schedule), " for ",
                      counted(micros_, "micro-batch", "micro-batches"), ": ranks wait for ",
                      std::llround(100 * bubble(timeline)),
                      " % of the time if stages take as long as each other, and hold activations of at most ",
                      counted(*std::max_element(live.begin(), live.end()), "forward")));
  const auto drawing = drawing_of(table, timeline);
  notes.insert(notes.end(), drawing.begin(), drawing.end());
  return notes;
}

}  // namespace pipeline_parallel

CAPSTAN_STRATEGY("pipeline_parallel", "0.1.0",
                 "cuts the model into stages on ranks that compute several micro-batches at once",
                 pipeline_parallel::PipelineParallel, pipeline_parallel::PipelineParallelOptions)
