-- |
-- Module      : Heddle.Serve.Error
-- Description : Why serving cannot begin
-- Stability   : stable
--
-- Each with a sentence that says what to do.
--
-- Cost: none; values.
-- Owner: values.
module Heddle.Serve.Error
  ( ServeError (..),
    naming,
  )
where

import Data.List (intercalate, isPrefixOf, isSuffixOf)
import Heddle.Prim.Errno
import Heddle.Prim.Exception
import Heddle.Serve.Behind (NotRouted)
import Heddle.Tls (TlsProblem)

-- | Why serving could not begin.
data ServeError
  = -- | The directory, and the system's error.
    CannotServe !FilePath !Errno
  | -- | There is neither a directory nor a route for every path.
    NothingToServe
  | -- | The address, and the system's error.
    CannotListen !String !Errno
  | -- | The address as given, and why it has no socket address.
    CannotResolve !String !String
  | -- | The log file, and the system's error.
    CannotLog !FilePath !Errno
  | -- | What is given as a log, and why it is none.
    CannotUseLog !FilePath !String
  | -- | The address that has no certificate.
    NoCertificateFor !String
  | -- | What is wrong with the certificates.
    CannotUse ![TlsProblem]
  | -- | The option that names a page of the site, the page, and what is wrong with it.
    CannotUsePage !String !FilePath !String
  | -- | The file of users, and what is wrong with it.
    CannotUseUsers !FilePath !String
  | -- | There is nothing to redirect to.
    NothingToRedirectTo
  | -- | The user to become, and why that does not work.
    CannotBecome !String !String
  | -- | The file for the process id, and the system's error.
    CannotWritePid !FilePath !Errno
  | -- | A name that two sites have.
    TwoSites !String
  | -- | A route, and what is wrong with it.
    CannotRoute !NotRouted
  | -- | Why a worker did not come to serve.
    CannotStartWorkers !String
  deriving stock (Eq)

instance Show ServeError where
  showsPrec d e = showParen (d > 10) (showString (displayException e))

instance Exception ServeError where
  displayException = \case
    CannotServe path e ->
      "cannot serve " ++ path ++ ": " ++ describeErrno e ++ ".\n  " ++ case e of
        ENOENT -> "Give the name of a directory that exists."
        ENOTDIR
          | any (`isSuffixOf` path) [".yaml", ".yml"] -> "A configuration is read by --config " ++ path ++ "."
          | otherwise -> "It is not a directory; give the directory that it is in."
        EACCES -> "Give this user the right to read it, or run as a user who has that right."
        _ -> "Check the directory and its file system."
    NothingToServe ->
      "nothing is served at /.\n  Give the directory of its files, a route for all paths, such as --proxy /=http://localhost:3000, or a configuration (--config FILE)."
    CannotListen place e ->
      "cannot listen on " ++ place ++ ": " ++ describeErrno e ++ ".\n  " ++ case e of
        EADDRINUSE -> "Another program listens there; stop it, or choose another port with --listen."
        EACCES | "unix:" `isPrefixOf` place -> "Give this user the right to write to the socket's directory."
        EACCES -> "Ports below 1024 need a privilege; try --listen localhost:8080."
        EADDRNOTAVAIL -> "This machine does not have that address; 'ip address' lists those it has."
        ENOENT -> "The directory of the socket does not exist."
        _ -> "Choose another address with --listen."
    NoCertificateFor place ->
      "there is no certificate for " ++ place ++ ".\n  Give --tls-cert FILE and --tls-key FILE, or --tls-self-signed for development."
    CannotUse problems -> intercalate "\nheddle serve: " (map displayException problems)
    CannotUsePage option path why -> "cannot use the page " ++ path ++ ": " ++ why ++ ".\n  " ++ option ++ " names a file beneath the directory that is served; check that it is there."
    CannotUseUsers path why -> "cannot use the users in " ++ path ++ ": " ++ why ++ ".\n  --basic-auth names a file with lines that 'heddle password USER' or 'htpasswd -B' made."
    NothingToRedirectTo -> "there is no address to redirect to.\n  Give one with --listen https://ADDR:PORT."
    CannotBecome user why -> "cannot serve as the user " ++ user ++ ": " ++ why ++ ".\n  Give an existing user to --user, and start as root."
    CannotWritePid path e -> "cannot write the process id to " ++ path ++ ": " ++ describeErrno e ++ ".\n  Give --pid-file a file in a directory that exists and that this user may write to."
    TwoSites name -> "there are two sites of the name " ++ name ++ ".\n  Give each name once."
    CannotRoute why -> displayException why
    CannotStartWorkers why -> "a worker does not serve: " ++ why ++ ".\n  Its own message says why."
    CannotResolve place why -> "cannot listen on " ++ place ++ ": " ++ why ++ ".\n  Give an address of this machine, such as 127.0.0.1:8080."
    CannotUseLog path why -> "cannot use the log " ++ path ++ ": " ++ why ++ ".\n  Give a file, -, journald or syslog."
    CannotLog path e ->
      "cannot write the access log " ++ path ++ ": " ++ describeErrno e ++ ".\n  " ++ case e of
        _ | take 6 path == "syslog" || take 8 path == "journald" || take 11 path == "the journal" -> "Nobody receives messages at its socket; start the daemon, or give a file."
        ENXIO -> "Nobody reads this FIFO; start its reader first."
        _ -> "Choose another file with --access-log, or - for standard output."

-- | Turn an 'IOError' of a system call into a 'ServeError' that names the user's argument.
naming :: (Errno -> ServeError) -> IO a -> IO a
naming wrap action =
  try action >>= \case
    Right r -> pure r
    Left (e :: IOException) -> maybe (throwIO e) (throwIO . wrap) (errnoOf e)
