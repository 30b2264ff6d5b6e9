{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : PipeCommand
-- Description : heddle pipe
--
-- Options, messages and exit status of the stream language. @docs/manual/pipe.md@ is its manual.
module PipeCommand
  ( pipeCommand,
  )
where

import Complaints (complainWith, whatFailed)
import Control.Monad (filterM, forM_, unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.Char (isDigit)
import Data.Maybe (fromMaybe)
import Endings (endByBrokenPipe, endWith)
import Heddle.Filter
import Heddle.Filter.Language
import Heddle.Prim.Atomic (Ref, newRef, readRef, writeRef)
import Heddle.Prim.Errno (describeErrno, pattern EPIPE)
import Heddle.Prim.Exception
import Heddle.Prim.Thread (getCapabilities, getProcessors, labelMe, setCapabilities, unbound)
import Inputs (isSafe, sourceFor, sourceMessage, toBytes)
import Options.Applicative
import System.Exit (ExitCode (..))
import System.Posix.Files.ByteString
import System.Posix.IO.ByteString (stdOutput)

data PipeOptions = PipeOptions
  { optionExplain :: Bool,
    optionJobs :: Maybe Int,
    optionNames :: Bool,
    optionText :: Bool,
    optionLongest :: Int,
    optionFile :: Maybe String,
    optionWords :: [String]
  }

-- | The sub-command's options and action.
pipeCommand :: ParserInfo (IO ())
pipeCommand =
  info
    (pipe <$> options <**> infoOption language (long "language" <> help "Print a summary of the language"))
    ( fullDesc
        <> progDesc "Run an expression of the stream language on files or standard input"
        <> footer
          "For example: heddle pipe 'select row having \"FIND ME\" numbered' access.log. Several files are \
          \one stream, as with cat. Exit codes: 0 if there was output, 1 if there was none or only a count of 0, \
          \2 after an error."
        <> failureCode 2
    )

options :: Parser PipeOptions
options =
  PipeOptions
    <$> switch (long "explain" <> help "Print how the expression would be run, and the laws that were applied; run nothing")
    <*> optional (option (eitherReader jobs) (long "jobs" <> short 'j' <> metavar "N" <> help "Use N cores (default: all)"))
    <*> switch (long "with-filename" <> short 'H' <> help "Run the expression on each file by itself, and put the file's name and a colon before each row of output")
    <*> switch (long "text" <> short 'a' <> help "Also print rows of binary files")
    <*> option
      (eitherReader size)
      ( long "longest" <> metavar "SIZE" <> value 268435456 <> showDefaultWith (const "256M")
          <> help "How long a row may be, and how much a stage may hold back, in bytes or with K, M or G"
      )
    <*> optional (strOption (long "file" <> short 'f' <> metavar "FILE" <> action "file" <> help "Read the expression from a file; all arguments are then files"))
    <*> many (strArgument (metavar "EXPR [FILE...]" <> action "file" <> help "The expression (in single quotes, to protect it from the shell), and the files to run it on (default: -, standard input)"))
  where
    -- Not as an Int: 18446744073709551617 would wrap to 1.
    jobs word = case reads word :: [(Integer, String)] of
      [(n, "")] | n > 0 && n <= 1024 -> Right (fromInteger n)
      _ -> Left ("'" ++ word ++ "' is not a number of cores (1 to 1024)")
    size word = case span isDigit word of
      (digits@(_ : _), unit)
        | Just factor <- lookup unit [("", 1), ("K", 1024), ("M", 1048576), ("G", 1073741824)],
          bytes <- factor * read digits,
          bytes > 0 ->
          if bytes <= largest
            then Right (fromInteger bytes)
            else Left ("'" ++ word ++ "' is too large; the largest size is " ++ show (largest `div` 1073741824) ++ "G")
      _ -> Left ("'" ++ word ++ "' is not a size, such as 64M")
    -- Sums of two sizes must not overflow.
    largest = toInteger (maxBound `div` 4 :: Int)

language :: String
language =
  unlines
    [ "STAGES take a stream of bytes and give one; a row is a line with its newline.",
      "  id                       the input               suppress          nothing",
      "  A | B                    the output of A, through B   A || B       the same, B on its own thread",
      "  \"text\", /regex/          the rows that have it: select row having \"text\"",
      "  select S                 the true sections of S  select S numbered [TEXT]   with row numbers",
      "  if S then A else B end   true sections through A, false ones through B, in order",
      "  foreach S then A else B end   the same, each section by itself",
      "  A where S, A unless S    A for true (false) sections; the others unchanged",
      "  count [S]                the number of true sections (default: row)",
      "  head [N], tail [N]       the first (last) N rows (default: 10)",
      "  number [TEXT]            the row's number and TEXT (default: \":\") before each row or section",
      "  numbers                  the number of each row instead of the row",
      "  prepend TEXT, append TEXT, instead TEXT   TEXT before, after, instead of the input",
      "  replace S with TEXT      TEXT instead of each true section",
      "  upper, lower             change ASCII letters",
      "  fields 1,3-5 [by TEXT] [with TEXT]   fields of each row (default: separated by blanks)",
      "  concat (A, B), interleave (A, B), zip (A, B)   the input through both, joined; flip exchanges them",
      "  command \"sort -u\"        the input through a shell command",
      "SPLITTERS cut a stream into true and false sections.",
      "  row, line (without its newline), word, digits, letters, capitals, blank, whitespace, controls,",
      "  non-ascii, everything, nothing, bytes TEXT",
      "  \"text\", \"text\"i          its occurrences; i ignores case",
      "  /regex/, /regex/i        its matches, within lines (POSIX extended)",
      "  S having T, S having-only T   true sections of S with a true (no false) section of T",
      "  S followed-by T          true sections of S after which T begins true",
      "  not S, S and T, S or T   byte by byte",
      "  first [N] S, last [N] S, prefix S, suffix S, from S to T",
      "having binds tighter than not, first ...; those tighter than and; that tighter than or. # begins a comment."
    ]

pipe :: PipeOptions -> IO ()
pipe chosen = do
  labelMe "heddle/pipe"
  status <- run chosen `catch` \e -> ExitFailure 2 <$ complain (whatFailed e)
  endWith status

run :: PipeOptions -> IO ExitCode
run chosen = do
  given <- mapM toBytes (optionWords chosen)
  source <- case (optionFile chosen, given) of
    (Just file, names) -> do
      text <- toBytes file >>= readExpression
      pure ((\t -> (t, names)) <$> text)
    (Nothing, expression : names) -> pure (Right (expression, names))
    (Nothing, []) -> pure (Left "an expression is needed; try --language for a summary of the language")
  case source of
    Left message -> ExitFailure 2 <$ complain message
    Right (text, names) ->
      parseStage text >>= \case
        Left e -> do
          complainWith (Char8.pack "heddle pipe: " <> renderParseError text e)
          pure (ExitFailure 2)
        Right stage -> do
          processors <- getProcessors
          let jobs = fromMaybe processors (optionJobs chosen)
          if optionExplain chosen
            then ExitSuccess <$ putStr (explain stage jobs (compile stage))
            else execute chosen jobs stage (if null names then [Char8.pack "-"] else names)
  where
    readExpression name = do
      result <- try (runBytes (uncompiled Identity) [sourceFor name])
      pure $ case result of
        Left e -> Left (sourceMessage e)
        Right text -> Right text

execute :: PipeOptions -> Int -> Stage -> [ByteString] -> IO ExitCode
execute chosen jobs stage names = unbound $ do
  trouble <- newRef False
  let complainOf message = writeRef trouble True >> complain message
  output <- newOutput stdOutput "standard output"
  inputs <- filterM (isSafe complainOf) names
  large <- or <$> mapM isLarge inputs
  before <- getCapabilities
  -- Starting more capabilities takes time, so this is done only where they are used.
  let cores = if large || usesThreads stage then jobs else 1
  when (cores /= before) (setCapabilities cores)
  let sink = outputSink output
      filtering =
        defaultFilterOptions
          { filterJobs = if large then jobs else 1,
            filterLongest = optionLongest chosen,
            filterOnError = complainOf . sourceMessage,
            filterOnFlush = flushOutput output,
            filterOnBinary =
              if optionText chosen
                then Nothing
                else Just (\name -> void (push sink (Bytes.concat [Char8.pack "heddle pipe: ", name, Char8.pack ": binary file matches\n"])))
          }
  nothing <-
    if optionNames chosen
      then do
        -- Has a file given more than a count of 0? Has the row that came out last not ended?
        found <- newRef False
        open <- newRef False
        forM_ inputs $ \name -> do
          gone <- readerGone output
          unless gone $ do
            apart <- fileSink name found open sink
            runPlan filtering (compile (stage :> named name)) [sourceFor name] apart
        not <$> readRef found
      else runPlan filtering (compile stage) (map sourceFor inputs) sink >> isOnlyZero output
  flushOutput output
  gone <- readerGone output
  -- End quietly, by SIGPIPE, as C programs do.
  when gone (endByBrokenPipe >> writeRef trouble True >> complain ("standard output: " ++ describeErrno EPIPE))
  failed <- readRef trouble
  pure (if failed then ExitFailure 2 else if nothing then ExitFailure 1 else ExitSuccess)
  where
    named name = ForEach Row (Prepend (name <> Char8.pack ":")) Identity

-- The sink for the output of one file, by its name: it notes whether that was more than a count of 0, and whether its last row
-- has ended; if that of the file before has not, it ends it first.
fileSink :: ByteString -> Ref Bool -> Ref Bool -> Sink -> IO Sink
fileSink name found open to = do
  first <- newRef Bytes.empty
  total <- newRef (0 :: Int)
  let zero = name <> Char8.pack ":0\n"
      note = do
        beginning <- readRef first
        size <- readRef total
        unless (size == 0 || (size == Bytes.length zero && beginning == zero)) (writeRef found True)
  pure . flip Sink note $ \piece -> do
    before <- readRef total
    glued <- readRef open
    when (before == 0 && glued) (void (push to (Char8.pack "\n")))
    beginning <- readRef first
    when (Bytes.length beginning < Bytes.length zero) $
      writeRef first $! Bytes.copy (Bytes.take (Bytes.length zero) (beginning <> Bytes.take (Bytes.length zero) piece))
    writeRef total $! before + Bytes.length piece
    writeRef open $! Bytes.last piece /= 0x0a
    push to piece

-- Does a part of it run on a thread of its own?
usesThreads :: Stage -> Bool
usesThreads = \case
  _ :|| _ -> True
  Command _ -> True
  a :> b -> usesThreads a || usesThreads b
  _ -> False

-- Is the file large enough for several cores? Opening it tells what is wrong with it.
isLarge :: ByteString -> IO Bool
isLarge name
  | name == Char8.pack "-" = large <$> getFdStatus 0
  | otherwise = either (\(_ :: IOException) -> False) large <$> try (getFileStatus name)
  where
    large status = isRegularFile status && fileSize status >= 4194304

-- Print a message; its bytes are not encoded again.
complain :: String -> IO ()
complain message = complainWith (Char8.pack ("heddle pipe: " ++ message ++ "\n"))
