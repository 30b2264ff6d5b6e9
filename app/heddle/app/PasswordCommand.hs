-- |
-- Module      : PasswordCommand
-- Description : heddle password
--
-- Makes a line for the file of heddle serve --basic-auth.
module PasswordCommand
  ( passwordCommand,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Heddle.Prim.Exception (bracket_, displayException, try)
import Heddle.Prim.Message (putErrorLine)
import Heddle.Serve (argumentBytes, hashPassword, longestPassword)
import Options.Applicative
import System.Exit (ExitCode (..), exitWith)
import System.IO (hFlush, hGetEcho, hIsTerminalDevice, hPutStr, hPutStrLn, hSetEcho, stderr, stdin, stdout)
import System.IO.Error (isEOFError)

-- | The sub-command's options and action.
passwordCommand :: ParserInfo (IO ())
passwordCommand =
  info
    (run <$> strArgument (metavar "USER" <> help "The user's name") <*> option (eitherReader cost) (long "cost" <> metavar "N" <> value 12 <> showDefault <> help "How long checking takes: each step doubles it (4 to 20)"))
    ( fullDesc
        <> progDesc "Make a line for the file of 'heddle serve --basic-auth'"
        <> footer "Asks for the password on a terminal; otherwise it is the first line of standard input. The line goes to standard output: heddle password ann >> users"
        <> failureCode 2
    )
  where
    cost text = case reads text of
      [(n, "")] | n >= 4 && n <= 20 -> Right n
      _ -> Left ("'" ++ text ++ "' is not a cost (4 to 20)")

run :: String -> Int -> IO ()
run user cost
  | null user || any (\c -> c == ':' || c < ' ') user || take 1 user == "#" = refuse "a user's name may hold neither ':' nor control characters, nor begin with '#'"
  | otherwise = do
    password <- asked
    hashed <- hashPassword cost password
    case hashed of
      Just hash -> B.hPut stdout (B.concat [argumentBytes user, C.pack ":", hash, C.pack "\n"]) >> hFlush stdout
      Nothing -> refuse ("a password has 1 to " ++ show longestPassword ++ " bytes, and no NUL")

asked :: IO ByteString
asked = do
  terminal <- hIsTerminalDevice stdin
  if terminal
    then do
      first <- secretly "Password: "
      second <- secretly "Again: "
      if first == second then pure first else refuse "the two passwords are not the same"
    else lineOf
  where
    secretly prompt = do
      hPutStr stderr prompt
      hFlush stderr
      echo <- hGetEcho stdin
      bracket_ (hSetEcho stdin False) (hSetEcho stdin echo >> hPutStrLn stderr "") lineOf
    lineOf = try (C.hGetLine stdin) >>= either (refuse . noLine) (pure . C.filter (/= '\r'))
    noLine e = if isEOFError e then "there is no password on standard input" else "the password cannot be read: " ++ displayException e

refuse :: String -> IO a
refuse why = do
  putErrorLine ("heddle password: " ++ why)
  exitWith (ExitFailure 2)
