"""The recipe for Spack. `spack repo add` a repository that has it as packages/holdfast/package.py."""

from spack.package import *


class Holdfast(CMakePackage):
    """A persistent heap for C++20 and C: data structures that outlive the process and the crash."""

    license("Apache-2.0")
    maintainers()

    version("main", branch="main")

    variant("shared", default=True, description="Link programs with the shared library")
    variant("tools", default=True, description="Build the program holdfast")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("boost@1.74: +container")
    depends_on("fmt@9:10", type="build")
    depends_on("xxhash@0.8:", type="build")
    depends_on("cli11@2.1:", type="build", when="+tools")
    depends_on("nlohmann-json@3.11:", type="build", when="+tools")

    conflicts("platform=darwin", msg="Holdfast needs Linux")
    conflicts("platform=windows", msg="Holdfast needs Linux")
    conflicts("%gcc@:11", msg="Holdfast needs C++20")
    conflicts("%clang@:15", msg="Holdfast needs C++20")

    def cmake_args(self):
        headers = [self.spec[name].prefix.include for name in ("fmt", "xxhash")]
        if self.spec.satisfies("+tools"):
            headers += [self.spec[name].prefix.include for name in ("cli11", "nlohmann-json")]
        return [
            self.define_from_variant("BUILD_SHARED_LIBS", "shared"),
            self.define_from_variant("HOLDFAST_BUILD_CLI", "tools"),
            self.define("HOLDFAST_BUILD_TESTS", False),
            self.define("HOLDFAST_BUILD_BENCH", False),
            self.define("HOLDFAST_BUILD_EXAMPLES", False),
            # These are used as headers, which the compiler must find.
            self.define("CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES", headers),
        ]
