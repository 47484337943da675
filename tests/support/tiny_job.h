// A job of the tiny model on tiny data.
#pragma once
#include <capstan_catch.h>

#include "support/folder.h"
#include "support/job.h"
#include "testing/tiny.h"

namespace capstan::testing {

/// 9 samples in batches of 4, in the run folder `FOLDER/a`.
inline job::Job tiny_job(const test::Folder& folder) {
  static plugin::Host host;
  static const bool once = (host.add(tiny_model()), host.add(tiny_data()), true);
  CHECK(once);
  setup::JobRequest request;
  request.file = folder.write("a.toml",
                              "[run]\nhost_memory = 1000\nname = \"a\"\n[model]\nplugin = \"tiny\"\n"
                              "[data]\nplugin = \"tiny\"\nsamples = 9\n[train]\nepochs = 3\nglobal_batch = 4\n");
  request.overrides = {"run.dir=" + folder.path().string()};
  return job_of(request, host);
}

}  // namespace capstan::testing
