#include "cli/program.h"

int main(int argc, char** argv) { return capstan::cli::program(argc, argv); }
