#include "app/program.h"

int main(int argc, char** argv) { return capstan::app::program(argc, argv); }
