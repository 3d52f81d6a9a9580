#include "store/lmdb_library.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>
#include <utility>

#include <dlfcn.h>

namespace holdfast::test {

lmdb_library::lmdb_library(std::string library_path, bool program_first) : path(std::move(library_path)) {
#ifdef HOLDFAST_SANITIZED
    program_first = true;  // sanitizers allow nothing else; no sanitized test links a library of these symbols
#endif
    const int own_symbols = program_first ? 0 : RTLD_DEEPBIND;
    void* const loaded = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | own_symbols);
    if (loaded == nullptr) {
        throw std::runtime_error(::dlerror());
    }
    const auto find = [&](const char* symbol) {
        void* const found = ::dlsym(loaded, symbol);
        if (found == nullptr) {
            throw std::runtime_error(path + " has no " + symbol);
        }
        return found;
    };
#define HF_FIND(name) this->name = reinterpret_cast<decltype(&::mdb_##name)>(find("mdb_" #name));
    HF_LMDB_FUNCTIONS(HF_FIND)
#undef HF_FIND
    set_maxkeysize = reinterpret_cast<decltype(set_maxkeysize)>(::dlsym(loaded, "hf_lmdb_set_maxkeysize"));
    emulate_persistent_memory =
        reinterpret_cast<decltype(emulate_persistent_memory)>(::dlsym(loaded, "hf_lmdb_emulate_persistent_memory"));
}

const std::vector<named_library>& lmdb_libraries() {
    static const std::vector<named_library> found = [] {
        std::vector<named_library> libraries;
        for (const named_library& one :
             {named_library{"debian", HOLDFAST_DEBIAN_LMDB}, named_library{"holdfast", HOLDFAST_OWN_LMDB}}) {
            if (!one.path.empty() && std::filesystem::exists(one.path)) {
                libraries.push_back(one);
            }
        }
        return libraries;
    }();
    return found;
}

bool has_lmdb(std::string_view name) {
    for (const named_library& one : lmdb_libraries()) {
        if (one.name == name) {
            return true;
        }
    }
    return false;
}

const lmdb_library& lmdb(std::string_view name) {
    static std::map<std::string, std::unique_ptr<lmdb_library>> loaded;
    for (const named_library& one : lmdb_libraries()) {
        if (one.name == name) {
            auto& library = loaded[one.name];
            if (!library) {
                library = std::make_unique<lmdb_library>(one.path);
            }
            return *library;
        }
    }
    throw std::runtime_error("no liblmdb of the name " + std::string(name));
}

std::string error_name(int code) {
    static constexpr std::array names = {
        "KEYEXIST",    "NOTFOUND",     "PAGE_NOTFOUND", "CORRUPTED", "PANIC",       "VERSION_MISMATCH", "INVALID",
        "MAP_FULL",    "DBS_FULL",     "READERS_FULL",  "TLS_FULL",  "TXN_FULL",    "CURSOR_FULL",      "PAGE_FULL",
        "MAP_RESIZED", "INCOMPATIBLE", "BAD_RSLOT",     "BAD_TXN",   "BAD_VALSIZE", "BAD_DBI"};
    const int index = code - MDB_KEYEXIST;
    if (index >= 0 && index < static_cast<int>(names.size())) {
        return std::string("MDB_") + names[static_cast<std::size_t>(index)];
    }
    const char* const name = ::strerrorname_np(code);
    return code == 0 ? "success" : name != nullptr ? name : std::to_string(code);
}

}  // namespace holdfast::test
