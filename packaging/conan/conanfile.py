"""The recipe for Conan 2: `conan create packaging/conan`, from a checkout of the project."""

import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load
from conan.errors import ConanInvalidConfiguration


class HoldfastRecipe(ConanFile):
    """The library alone: no tools, no tests, no benchmarks."""

    name = "holdfast"
    description = "A persistent heap for C++20 and C: data structures that outlive the process and the crash"
    license = "Apache-2.0"
    topics = ("persistence", "allocator", "memory-mapped", "persistent-memory")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {
        "shared": [True, False],
        # Boost, fmt and xxHash of the system instead of those of Conan.
        "system_dependencies": [True, False],
    }
    default_options = {"shared": False, "system_dependencies": False, "boost/*:header_only": True}

    @property
    def _root(self):
        """The project's root, where the recipe lies in it."""
        return os.path.join(self.recipe_folder, "..", "..")

    def set_version(self):
        if os.path.exists(os.path.join(self._root, "CMakeLists.txt")):
            text = load(self, os.path.join(self._root, "CMakeLists.txt"))
            self.version = re.search(r"project\(holdfast VERSION ([0-9.]+)", text).group(1)

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "src/*", "packaging/debian/*"):
            copy(self, pattern, src=self._root, dst=self.export_sources_folder)

    def validate(self):
        check_min_cppstd(self, 20)
        if self.settings.os != "Linux" or self.settings.arch not in ("x86_64", "armv8"):
            raise ConanInvalidConfiguration("Holdfast needs Linux on x86-64 or arm64")

    def requirements(self):
        if not self.options.system_dependencies:
            self.requires("boost/[>=1.74 <2]", transitive_headers=True)
            self.requires("fmt/[>=9 <11]")
            self.requires("xxhash/[>=0.8 <1]")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["BUILD_SHARED_LIBS"] = bool(self.options.shared)
        for name in ("TESTS", "BENCH", "EXAMPLES", "CLI", "STORE", "MALLOC"):
            toolchain.cache_variables[f"HOLDFAST_BUILD_{name}"] = False
        if not self.options.system_dependencies:
            # fmt and xxHash are used as headers, which the compiler must find.
            headers = [self.dependencies[name].cpp_info.includedirs[0] for name in ("fmt", "xxhash")]
            toolchain.cache_variables["CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES"] = ";".join(headers)
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build(target="holdfast_shared" if self.options.shared else "holdfast_static")

    def package(self):
        copy(self, "LICENSE", src=self.source_folder, dst=os.path.join(self.package_folder, "licenses"))
        include = os.path.join(self.source_folder, "include")
        for pattern in ("holdfast/*.h", "holdfast/*.hpp"):
            copy(self, pattern, src=include, dst=os.path.join(self.package_folder, "include"), excludes="*/store*")
        library = os.path.join(self.build_folder, "lib")
        for pattern in ("libholdfast.so*",) if self.options.shared else ("libholdfast.a",):
            copy(self, pattern, src=library, dst=os.path.join(self.package_folder, "lib"))

    def package_info(self):
        self.cpp_info.libs = ["holdfast"]
        self.cpp_info.set_property("cmake_file_name", "holdfast")
        self.cpp_info.set_property("cmake_target_name", "holdfast::holdfast")
        self.cpp_info.set_property("pkg_config_name", "holdfast")
        self.cpp_info.system_libs = ["pthread"]
        if not self.options.system_dependencies:
            self.cpp_info.requires = ["boost::headers", "fmt::fmt", "xxhash::xxhash"]
