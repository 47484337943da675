#pragma once
#include <unistd.h>

#include <stdexcept>
#include <string>

namespace test {

/// Root is refused nothing: while this object lives, the process asks the file system as an ordinary user. Where the
/// tests are not run by root, they are such a user already.
class OrdinaryUser {
 public:
  static constexpr uid_t nobody = 65534;
  OrdinaryUser() : is_root_(::geteuid() == 0) {
    if (is_root_ && (::setegid(nobody) != 0 || ::seteuid(nobody) != 0))
      throw std::runtime_error("cannot become an ordinary user");
  }
  ~OrdinaryUser() {
    if (is_root_ && (::seteuid(0) != 0 || ::setegid(0) != 0)) ::_exit(1);
  }
  /// Not if the tests were built below /root, say.
  static bool may_run(const std::string& file) { return ::eaccess(file.c_str(), X_OK) == 0; }
  OrdinaryUser(const OrdinaryUser&) = delete;
  OrdinaryUser& operator=(const OrdinaryUser&) = delete;

 private:
  bool is_root_;
};

}  // namespace test
