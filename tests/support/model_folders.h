#pragma once
// Folders with models of random values, for runs that read a model from one.
#include <capstan/base/text.h>
#include <capstan/comm/communicator.h>

#include <filesystem>
#include <string>

#include "hf/door.h"
#include "job/assemble.h"
#include "nn/init_source.h"
#include "support/folder.h"
#include "support/job.h"

namespace capstan::testing {

/// Writes a model of the [model] table `model`, in float64 and with values that `seed` draws, to `folder`.
inline void write_model(const std::string& model, std::uint64_t seed, const std::filesystem::path& folder) {
  const test::Folder scratch;
  setup::JobRequest request;
  request.file = scratch.write("model.toml", cat("[run]\ndevice = \"cpu\"\n", model,
                                                 "[data]\nplugin = \"synthetic\"\ntokenizer = \"byte\"\n"
                                                 "[train]\nmax_steps = 1\nglobal_batch = 1\nprecision = \"fp64\"\n"));
  const auto job = job_of(request);
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    nn::InitSource values(seed);
    const hf::ModelToWrite written{job.plugins, job.samples.tokenizer, *job.config.train,
                                   job::pointers(job.model->units)};
    hf::door().write(written, values, folder, {}, communicator);
  });
}

}  // namespace capstan::testing
