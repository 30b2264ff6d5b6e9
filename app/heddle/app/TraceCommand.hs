-- |
-- Module      : TraceCommand
-- Description : heddle trace
--
-- Shows what cores and threads did, from a GHC event log. @docs/manual/trace.md@ is its manual.
module TraceCommand
  ( traceCommand,
  )
where

import Complaints (complainWith)
import Control.Monad (forM_, void)
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as Char8
import Endings (endWith)
import Heddle.Prim.Errno (describeErrno, errnoOf)
import Heddle.Prim.Exception
import Heddle.Prim.Thread (labelMe, unbound)
import Heddle.Trace.Log
import Heddle.Trace.Model (analyse, silent)
import Heddle.Trace.Page (writePage)
import Heddle.Trace.Perfetto (writePerfetto)
import Heddle.Trace.Speedscope (writeSpeedscope)
import Heddle.Trace.Summary (summary)
import Heddle.Trace.Tables (skippedText, titleOf)
import Inputs (isSafe, toBytes)
import Options.Applicative
import System.Exit (ExitCode (..))
import System.IO (BufferMode (..), Handle, IOMode (..), hSetBinaryMode, hSetBuffering, stdout, withFile)
import System.IO.Error (ioeGetFileName, ioeGetHandle)
import System.Posix.Files.ByteString (deviceID, fileID, getFileStatus)

data Form = Summary | Page | Perfetto | Speedscope
  deriving stock (Eq)

data TraceOptions = TraceOptions
  { optionForm :: Maybe Form,
    optionOutput :: Maybe FilePath,
    optionName :: Maybe String,
    optionThreads :: Int,
    optionFrom :: Maybe Double,
    optionTo :: Maybe Double,
    optionFile :: String
  }

-- | The sub-command's options and action.
traceCommand :: ParserInfo (IO ())
traceCommand =
  info
    (trace <$> options)
    ( fullDesc
        <> progDesc "Show what cores and threads of a Haskell program did, from its event log"
        <> footer
          "For example: heddle trace server.eventlog -o server.html. A program linked with -eventlog writes the log when \
          \it is run with +RTS -l. Memory does not depend on the log's size. Exit codes: 0 if the log could be read \
          \(parts that could not are named), 2 after an error."
        <> failureCode 2
    )

options :: Parser TraceOptions
options =
  TraceOptions
    <$> optional form
    <*> optional (strOption (long "output" <> short 'o' <> metavar "OUT" <> action "file" <> help "Write there; without another option, a page for a browser"))
    <*> optional (strOption (long "name" <> metavar "NAME" <> help "The title; without it, the program with its arguments and the log's file"))
    <*> option number (long "threads" <> metavar "N" <> value 20 <> showDefault <> help "How many threads --summary lists")
    <*> optional (option auto (long "from" <> metavar "SECONDS" <> help "Where the page begins, in seconds since the program's start"))
    <*> optional (option auto (long "to" <> metavar "SECONDS" <> help "Where the page ends"))
    <*> strArgument (metavar "FILE" <> action "file" <> help "The event log")
  where
    form =
      flag' Summary (long "summary" <> help "Tables for a terminal: the default")
        <|> flag' Page (long "page" <> help "A page for a browser: the default with --output")
        <|> flag' Perfetto (long "perfetto" <> help "A trace for ui.perfetto.dev")
        <|> flag' Speedscope (long "speedscope" <> help "A profile for speedscope.app")
    number = eitherReader $ \word -> case reads word of
      [(n, "")] | n >= 0 -> Right n
      _ -> Left ("'" ++ word ++ "' is not a number from 0")

trace :: TraceOptions -> IO ()
trace chosen = do
  labelMe "heddle/trace"
  status <- unbound (ExitSuccess <$ run chosen) `catchSync` \e -> ExitFailure 2 <$ complain (about e ++ ": " ++ reason e)
  endWith status
  where
    -- Whatever has no name and no handle is the log.
    about e = case fromException e of
      Just (io :: IOException)
        | Just name <- ioeGetFileName io -> name
        | Just _ <- ioeGetHandle io -> "standard output"
      _ -> optionFile chosen
    reason e = case fromException e of
      Just (NotALog why) -> why
      Nothing -> maybe (describeException e) describeErrno (fromException e >>= errnoOf)

run :: TraceOptions -> IO ()
run chosen = do
  file <- toBytes (optionFile chosen)
  safe <- maybe (isSafe complain file) (differs file) (optionOutput chosen)
  if safe then withLog file (shown chosen file) else throwIO (NotALog "nothing was written")

-- The output is opened after the log, and must not be it.
differs :: ByteString -> FilePath -> IO Bool
differs file output = do
  to <- toBytes output
  both <- try ((,) <$> getFileStatus file <*> getFileStatus to)
  case both of
    Right (a, b) | fileID a == fileID b, deviceID a == deviceID b -> False <$ complain (output ++ ": this file is also the log")
    -- The output is new, or opening one of them gives the better message.
    Left (_ :: IOException) -> pure True
    Right _ -> pure True

shown :: TraceOptions -> ByteString -> Log -> IO ()
shown chosen file l = do
  name <- traverse toBytes (optionName chosen)
  let title = titleOf name file
  into $ \handle -> case form of
    Summary -> analyse l (const True) silent >>= \t -> Char8.hPutStr handle (summary (title t) (optionThreads chosen) t)
    Page -> writePage handle l title (maybe minBound nanos (optionFrom chosen), maybe maxBound nanos (optionTo chosen))
    Perfetto -> writePerfetto handle l title
    Speedscope -> writeSpeedscope handle l title
  told <- skippedText <$> logNotes l <*> logSkipped l
  forM_ told $ \text -> complain (optionFile chosen ++ ": " ++ text)
  where
    form = case optionForm chosen of
      Just f -> f
      Nothing -> maybe Summary (const Page) (optionOutput chosen)
    nanos seconds = round (max 0 (min 9e9 seconds) * 1e9)
    into :: (Handle -> IO ()) -> IO ()
    into act = maybe (act' stdout) (\path -> withFile path WriteMode act') (optionOutput chosen)
      where
        act' handle = hSetBinaryMode handle True >> hSetBuffering handle (BlockBuffering (Just 65536)) >> void (act handle)

-- File names are written as the bytes that they are.
complain :: String -> IO ()
complain text = toBytes ("heddle trace: " ++ text ++ "\n") >>= complainWith
