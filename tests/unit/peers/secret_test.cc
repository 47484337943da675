#include "peers/secret.h"

#include <capstan_catch.h>
#include <sys/stat.h>

#include "support/errors.h"
#include "support/folder.h"

namespace secret_test {

using namespace capstan;
using namespace capstan::peers;

TEST_CASE("a secret lies in a file for this user alone, and one that others could have written is none") {
  const test::Folder folder;
  launch::Rendezvous where;
  where.secret_file = folder / "deeper/secret-4711.0.0";
  CHECK_FALSE(find_secret(where));
  const auto secret = make_secret(where);
  CHECK(secret.size() == 32);
  CHECK(find_secret(where) == secret);
  struct stat info {};
  REQUIRE(::stat(where.secret_file.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777U) == 0600);
  REQUIRE(::chmod(where.secret_file.c_str(), 0644) == 0);
  CHECK_THAT(test::error_of([&] { find_secret(where); }),
             Contains("others than this user could have written or read it") && Contains("export CAPSTAN_SECRET"));
  where.secret = "given by the launcher";
  CHECK(find_secret(where) == where.secret);
  CHECK(make_secret(where) == where.secret);
}

}  // namespace secret_test
