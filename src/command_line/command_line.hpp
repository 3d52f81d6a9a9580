// The arguments of a program and their help; not installed. Only command_line.cpp includes CLI11, whose headers take
// seconds to compile.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own name
class App;
class Option;
}  // namespace CLI

namespace holdfast_programs {

/// The meaning of K, M, ... after a number of bytes. Ki, Mi, ... are always powers of 1024.
enum class kilobyte : std::uint8_t { of_1000, of_1024 };

/// Valid as long as the command line lives. Every function changes the option and returns it.
class option {
public:
    option required() const;
    /// The help shows the variable's present value.
    option show_default() const;
    /// With both ends. The help shows their type.
    option range(int least, int greatest) const;
    option range(unsigned least, unsigned greatest) const;
    option range(std::uint64_t least, std::uint64_t greatest) const;
    option range(double least, double greatest) const;
    option positive() const;
    option one_of(std::vector<std::string> allowed) const;
    /// A number with or without a unit: 64K, 2GiB. It becomes bytes before range() checks it.
    option size(kilobyte kilo) const;
    /// Between several values in one argument.
    option delimiter(char separator) const;
    option needs(const option& other) const;
    option excludes(const option& other) const;
    /// The help lists it last, under "Internal": the program passes it to itself.
    option internal() const;

private:
    friend class command;
    explicit option(CLI::Option& declared) noexcept : declared_(&declared) {}

    CLI::Option* declared_;
};

/// A command, or the program: valid as long as the command line lives.
class command {
public:
    /// `names`: "-o,--output", or a name without dashes for a positional argument. Parsing writes to `value`, which
    /// must live until then, if the option is given.
    option add_option(const std::string& names, std::string& value, const std::string& text) const;
    option add_option(const std::string& names, std::filesystem::path& value, const std::string& text) const;
    option add_option(const std::string& names, unsigned& value, const std::string& text) const;
    option add_option(const std::string& names, std::uint64_t& value, const std::string& text) const;
    option add_option(const std::string& names, double& value, const std::string& text) const;
    option add_option(const std::string& names, std::vector<std::string>& value, const std::string& text) const;
    option add_option(const std::string& names, std::vector<unsigned>& value, const std::string& text) const;
    option add_option(const std::string& names, std::vector<std::uint64_t>& value, const std::string& text) const;
    option add_flag(const std::string& names, bool& value, const std::string& text) const;
    /// Throws std::exception where there is none.
    [[nodiscard]] option find_option(const std::string& name) const;
    /// The last lines of the help.
    void footer(const std::string& text) const;
    [[nodiscard]] bool parsed() const;

private:
    friend class command_line;
    explicit command(CLI::App& app) noexcept : app_(&app) {}

    CLI::App* app_;
};

/// Options that contradict each other throw.
class command_line : public command {
public:
    /// Where `name` is empty, the help takes it from argv.
    explicit command_line(const std::string& summary, const std::string& name = {});
    command_line(const command_line&) = delete;
    command_line& operator=(const command_line&) = delete;
    ~command_line();

    [[nodiscard]] command add_command(const std::string& name, const std::string& summary);
    /// Exactly one of the commands must be given.
    void require_command();
    void version_flag(const std::string& name, const std::string& version);
    /// A program with a result must exit with it: 0 after help or version, another after printing to standard error
    /// what is wrong with the arguments.
    [[nodiscard]] std::optional<int> parse(int argc, const char* const* argv);
    [[nodiscard]] static std::vector<std::string> known_shells();
    /// A script for one of those that completes commands, their options, and names of files.
    [[nodiscard]] std::string completion(const std::string& shell) const;
    /// A page for man(1), of all commands and their options. `purpose`: what the program does, in a line.
    [[nodiscard]] std::string manual(const std::string& purpose) const;

private:
    explicit command_line(std::unique_ptr<CLI::App> owned) noexcept;

    std::unique_ptr<CLI::App> owned_;
};

}  // namespace holdfast_programs
