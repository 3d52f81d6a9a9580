// A file, and what its medium may hold of it after a loss of power: every page as the last sync left it, or as any
// moment since did, each page for itself, some torn at sectors; the file has its old length or the new one.
// simulated_cuts_test.cpp has the system calls that tell it.
#pragma once

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::store_engine::simulated {

constexpr std::size_t page_size = 4096;
constexpr std::size_t sector_size = 512;

class medium {
public:
    explicit medium(std::string path) : path_(std::move(path)) {}

    [[nodiscard]] const std::string& path() const noexcept { return path_; }
    [[nodiscard]] bool is_at(int file) const noexcept {
        struct stat mine {};
        struct stat other {};
        return ::stat(path_.c_str(), &mine) == 0 && ::fstat(file, &other) == 0 && mine.st_ino == other.st_ino;
    }
    /// Where the bytes at this address lie in the file; none: elsewhere.
    [[nodiscard]] std::optional<std::size_t> offset_of(const void* address) const {
        std::ifstream maps("/proc/self/maps");
        const auto wanted = reinterpret_cast<std::uintptr_t>(address);  // NOLINT(*-reinterpret-cast)
        for (std::string line; std::getline(maps, line);) {
            std::uintptr_t begin = 0;
            std::uintptr_t end = 0;
            std::size_t offset = 0;
            const int found =
                std::sscanf(line.c_str(), "%lx-%lx %*s %lx", &begin, &end, &offset);  // NOLINT(cert-err34-c)
            if (found == 3 && begin <= wanted && wanted < end) {
                return line.ends_with(path_) ? std::optional(offset + (wanted - begin)) : std::nullopt;
            }
        }
        return std::nullopt;
    }
    /// Sees what was written since the last call.
    void look() {
        std::vector<char> now = read();
        for (std::size_t at = 0; at < now.size(); at += page_size) {
            const bool is_same = at < seen_.size() && std::memcmp(&now[at], &seen_[at], page_size) == 0;
            if (!is_same) {
                std::memcpy(versions_[at].emplace_back().data(), &now[at], page_size);
            }
        }
        seen_ = std::move(now);
    }
    /// Pages are written again, with what they have.
    void written(std::size_t offset, std::size_t bytes) {
        look();
        for (std::size_t at = offset / page_size * page_size; at < std::min(offset + bytes, seen_.size());
             at += page_size) {
            if (auto& all = versions_[at]; all.empty()) {
                std::memcpy(all.emplace_back().data(), &seen_[at], page_size);
            }
        }
    }
    /// False: what was not yet on the medium is lost, and passes for written from now on.
    void sync(std::size_t offset, std::size_t bytes, bool works) {
        look();
        if (works) {
            durable_.resize(std::max(durable_.size(), std::min(seen_.size(), offset + bytes)));
        }
        const auto begin = versions_.lower_bound(offset / page_size * page_size);
        const auto end = versions_.lower_bound(offset + bytes);
        for (auto one = begin; one != end && works; ++one) {
            if (one->first < seen_.size()) {
                std::memcpy(&durable_[one->first], &seen_[one->first], page_size);
            }
        }
        versions_.erase(begin, end);
    }
    void sync_all(bool works) {
        look();
        if (works) {
            durable_.resize(seen_.size());
        }
        sync(0, seen_.size(), works);
        versions_.clear();
    }
    [[nodiscard]] std::vector<char> after_a_cut(std::mt19937_64& random) const {
        std::vector<char> image = durable_;
        const auto [shortest, longest] = std::minmax(durable_.size(), seen_.size());
        const std::size_t between = shortest + random() % ((longest - shortest) / page_size + 1) * page_size;
        image.resize(std::array{durable_.size(), seen_.size(), between}.at(random() % 3));
        const bool most = random() % 2 == 0;  // a medium that has nearly all, or nearly nothing
        for (const auto& [at, all] : versions_) {
            const bool has_some = random() % 8 == 0;
            if (at >= image.size() || most == has_some) {
                continue;
            }
            const auto& page = random() % 4 == 0 ? all[random() % all.size()] : all.back();
            const std::uint64_t torn = random() % 16 == 0 ? random() : 0;
            for (std::size_t sector = 0; sector < page_size / sector_size; ++sector) {
                if ((torn >> sector & 1U) == 0) {
                    std::memcpy(&image[at + sector * sector_size], &page[sector * sector_size], sector_size);
                }
            }
        }
        return image;
    }
    [[nodiscard]] const std::vector<char>& durable() const noexcept { return durable_; }
    /// What programs see in the file.
    [[nodiscard]] const std::vector<char>& content() const noexcept { return seen_; }
    /// Brings it back.
    void restore(std::vector<char> image) {
        std::ofstream(path_, std::ios::binary | std::ios::trunc).write(image.data(), std::ssize(image));
        seen_ = std::move(image);
    }
    /// The file becomes what a medium holds.
    void become(const std::vector<char>& image) {
        restore(image);
        durable_ = image;
        versions_.clear();
    }

private:
    [[nodiscard]] std::vector<char> read() const {
        std::ifstream file(path_, std::ios::binary | std::ios::ate);
        std::vector<char> all(file ? static_cast<std::size_t>(file.tellg()) : 0);
        file.seekg(0).read(all.data(), std::ssize(all));
        return all;
    }

    std::string path_;
    std::vector<char> durable_;
    std::vector<char> seen_;
    std::map<std::size_t, std::vector<std::array<char, page_size>>> versions_;  ///< since the last sync, by offset
};

inline medium* at_risk = nullptr;              ///< null: the calls do not look
inline std::function<void(bool)> at_a_moment;  ///< true: before a sync
inline std::uint64_t syncs_to_failure = 0;     ///< 0: none fails

/// What the test does at a moment must not be one.
inline void moment(bool is_sync) {
    medium* const here = std::exchange(at_risk, nullptr);
    here->look();
    at_a_moment(is_sync);
    at_risk = here;
}

/// The answer of a sync that works, or does not.
inline int answer(bool works) {
    errno = works ? errno : EIO;
    return works ? 0 : -1;
}

}  // namespace holdfast::store_engine::simulated
