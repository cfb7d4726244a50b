"""Which variables a job may get, by one rule for all sources of values.

Any source may set the variables that the definition declares or an administrator lists
(`JOBAUTO_EXTRA_ENV`). Names that change how a program is loaded, found or run are set only if the
definition declares them, the service's own names never.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Self

from jobauto_prefect.definitions.findings import child, did_you_mean, quote
from jobauto_prefect.definitions.model import Definition
from jobauto_prefect.definitions.storable import is_storable
from jobauto_prefect.errors import Fault

RESERVED = re.compile(r"(JOBAUTO|MULTIFLEXI)_.*", re.DOTALL)
"""The service's own names."""

GUARDED: Mapping[str, str] = {
    "loader and C library": "LD_* DYLD_* _RLD* LDR_* LIBPATH SHLIB_PATH GLIBC_TUNABLES MALLOC_*"
    " GETCONF_DIR NIS_PATH HOSTALIASES LOCALDOMAIN RES_OPTIONS RESOLV_HOST_CONF TZDIR",
    "modules of locales and terminals": "GCONV_PATH LOCPATH NLSPATH PATH_LOCALE TERMINFO"
    " TERMINFO_DIRS TERMCAP TERMPATH",
    "shells": "BASH_* BASHOPTS SHELLOPTS ENV IFS PS0 PS1 PS2 PS3 PS4 PROMPT_COMMAND CDPATH"
    " GLOBIGNORE EXECIGNORE POSIXLY_CORRECT FPATH ZDOTDIR NULLCMD READNULLCMD TMPPREFIX INPUTRC"
    " HISTFILE",
    "interpreters": "PYTHON* PERL* PAR_* RUBY* GEM_HOME GEM_PATH BUNDLE_* NODE_OPTIONS NODE_PATH"
    " NODE_EXTRA_CA_CERTS NODE_TLS_REJECT_UNAUTHORIZED NODE_REPL_EXTERNAL_MODULE"
    " NODE_REDIRECT_WARNINGS NODE_V8_COVERAGE NODE_ICU_DATA DENO_* BUN_* PHPRC PHP_INI_SCAN_DIR"
    " XDEBUG_* JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS _JAVA_OPTIONS JAVA_OPTS JAVA_HOME CLASSPATH"
    " DOTNET_* CORECLR_* COMPLUS_* COMPlus_* LUA_INIT* LUA_PATH* LUA_CPATH* R_HOME R_PROFILE*"
    " R_ENVIRON* R_LIBS* TCLLIBPATH TCL_LIBRARY GUILE_* ERL_* ELIXIR_ERL_OPTIONS JULIA_* GODEBUG"
    " GOFLAGS GOPATH GOROOT GAWK_* AWKPATH AWKLIBPATH",
    "what programs start, read and trust": "GIT_* SSH_* EDITOR VISUAL PAGER MANPAGER BROWSER LESS"
    " LESSOPEN LESSCLOSE MAKEFLAGS MAKEFILES TAR_OPTIONS RSYNC_RSH CVS_RSH SVN_SSH HGRCPATH"
    " OPENSSL_* SSL_CERT_FILE SSL_CERT_DIR SSLKEYLOGFILE CURL_HOME CURL_CA_BUNDLE"
    " REQUESTS_CA_BUNDLE WGETRC NETRC KRB5_CONFIG KRB5_KTNAME PIP_* UV_* NPM_CONFIG_*"
    " npm_config_* COMPOSER_*",
    "places": "PATH HOME TMPDIR TMP TEMP PWD OLDPWD SHELL XDG_*",
}
"""Names, and with a star prefixes, that change how a program is loaded, found or run.

They are what glibc ignores in set-uid programs (its unsecvars.h), what sudo removes, and what
runtimes read. All names that end in `_proxy`, in any case, count too.
"""

_WORDS = [word for words in GUARDED.values() for word in words.split()]
_NAMES = frozenset(word for word in _WORDS if not word.endswith("*"))
_BEGINNINGS = tuple(word[:-1] for word in _WORDS if word.endswith("*"))


def is_guarded(name: str) -> bool:
    """Whether a variable changes how a program is loaded, found or run."""
    return name in _NAMES or name.startswith(_BEGINNINGS) or name.lower().endswith("_proxy")


def _is_impossible(name: str) -> bool:
    """Whether a variable can't be set at all, not even by a definition."""
    return not name or "=" in name or not is_storable(name) or bool(RESERVED.fullmatch(name))


@dataclass(frozen=True, slots=True)
class EnvironmentNames:
    """The names that values for jobs of one application may have.

    `declared` are the keys of its definition, `extra` the names an administrator allows for all.
    """

    declared: Collection[str]
    extra: Collection[str] = ()

    @classmethod
    def of(cls, definition: Definition, extra: Collection[str]) -> Self:
        """Build from a definition's keys and the administrator's extra names."""
        return cls(definition.environment, extra)

    def permits(self, name: str, granted: Collection[str] = ()) -> bool:
        """Whether a job gets a variable; `granted` are names its source may add."""
        if _is_impossible(name):
            return False
        if name in self.declared:
            return True
        return (name in self.extra or name in granted) and not is_guarded(name)

    def faults(self, names: Iterable[str], member: str = "/env") -> Iterator[Fault]:
        """Return an error for each name that is not permitted; `member` is where the names are."""
        for name in names:
            if self.permits(name):
                continue
            if unsafe_reason(name):
                yield _unsafe(name, member)
            else:
                known = [*self.declared, *self.extra]
                there_are = (
                    f"; there are {', '.join(known)}" if known else "; it declares no variables"
                )
                hint = did_you_mean(name, known) or there_are
                message = f"the application declares no {quote(name)}{hint}"
                yield Fault(child(member, name), "undeclared", message)


def unsafe_faults(names: Iterable[str], member: str) -> Iterator[Fault]:
    """Yield the errors of names that are unsafe for values of more than one application."""
    return (_unsafe(name, member) for name in names if unsafe_reason(name))


def unsafe_reason(name: str) -> str | None:
    """Return why a name is refused for values of several applications; None if it is allowed."""
    if RESERVED.fullmatch(name):
        return "is reserved for the service; choose another name"
    if _is_impossible(name):
        return "is not a name that a process can use; choose another"
    if is_guarded(name):
        return "changes how programs are loaded, found or run; only a definition may declare it"
    return None


def _unsafe(name: str, member: str) -> Fault:
    return Fault(child(member, name), "name", f"{quote(name)} {unsafe_reason(name)}")
