{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : JsonCommand
-- Description : heddle json
--
-- Validates and reformats JSON, in memory that does not depend on its length. @docs/manual/json.md@ is its manual.
--
-- A block is read, checked, reformatted as far as it is valid, and written, before the next one is read.
module JsonCommand
  ( jsonCommand,
  )
where

import Complaints (complainWith, whatFailed)
import Control.Monad (filterM, forM_, unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.ByteString.Unsafe qualified as Bytes
import Data.List (nub, tails)
import Data.Maybe (fromMaybe)
import Endings (endByBrokenPipe, endWith)
import Foreign.Ptr (castPtr, plusPtr)
import Heddle.Filter (Output, Sink (..), flushOutput, newOutput, outputSink, readerGone, readingFrom, sourceName)
import Heddle.Json.Check
import Heddle.Json.Malformed
import Heddle.Json.Options
import Heddle.Json.Stream (Line (..), feedLines, finishLines, jsonLines)
import Heddle.Prim.Atomic (newRef, readRef, writeRef)
import Heddle.Prim.Buffer (Buffer, bufferSize, newBuffer, withBuffer)
import Heddle.Prim.Cpu (level)
import Heddle.Prim.Errno (describeErrno, pattern EPIPE)
import Heddle.Prim.Exception
import Heddle.Prim.Thread (labelMe, unbound)
import Inputs (isSafe, sourceFor, sourceMessage, toBytes)
import Options.Applicative
import System.Exit (ExitCode (..))
import System.Posix.IO.ByteString (stdOutput)

data Mode = Check | CheckLines | Minify | Pretty | Relines
  deriving stock (Eq)

-- Any number of values, as lines.
ofLines :: Mode -> Bool
ofLines mode = mode `elem` [CheckLines, Relines]

writesNothing :: Mode -> Bool
writesNothing mode = mode `elem` [Check, CheckLines]

data JsonOptions = JsonOptions
  { optionModes :: [Mode],
    optionIndent :: Int,
    optionDepth :: Int,
    optionQuiet :: Bool,
    optionKeepGoing :: Bool,
    optionFiles :: [String]
  }

-- | The sub-command's options and action.
jsonCommand :: ParserInfo (IO ())
jsonCommand =
  info
    (json <$> options)
    ( fullDesc
        <> progDesc "Validate JSON of any size, point at the first error, reformat it (indented by default)"
        <> footer
          "For example: heddle json --check data.json. Errors are reported as FILE:LINE:COLUMN: REASON, with the \
          \column in characters. Memory does not depend on the input's size. Exit codes: 0 if all is valid, 1 if \
          \something is not, 2 after an error."
        <> failureCode 2
    )

options :: Parser JsonOptions
options =
  JsonOptions
    <$> many mode
    <*> option (bounded 0 16) (long "indent" <> metavar "N" <> value 2 <> showDefault <> help "Blanks for each level of indentation, with --pretty")
    <*> option (bounded 0 100000000) (long "depth" <> metavar "N" <> value 1024 <> showDefault <> help "How deep arrays and objects may be nested")
    <*> switch (long "quiet" <> short 'q' <> help "No messages about invalid input, only the exit code")
    <*> switch (long "keep-going" <> short 'k' <> help "With --lines: each line is one value; report an invalid line, leave it out, and continue with the next")
    <*> many (strArgument (metavar "FILE..." <> action "file" <> help "Files to read, each a text of its own (default: -, standard input)"))
  where
    mode =
      flag' Check (long "check" <> help "Only validate; write nothing")
        <|> flag' Minify (long "minify" <> help "Without white space")
        <|> flag' Relines (long "lines" <> help "Any number of values, each on a line of its own without white space (JSON Lines); with --check, only validate them")
        <|> flag' Pretty (long "pretty" <> help "Indented: the default")
    bounded least most = eitherReader $ \word -> case reads word of
      [(n, "")] | n >= least, n <= (most :: Int) -> Right n
      _ -> Left ("'" ++ word ++ "' is not a number from " ++ show least ++ " to " ++ show most)

json :: JsonOptions -> IO ()
json chosen = do
  labelMe "heddle/json"
  status <- unbound (checkedRun chosen) `catch` \e -> ExitFailure 2 <$ complain (whatFailed e)
  endWith status

checkedRun :: JsonOptions -> IO ExitCode
checkedRun chosen = case modeOf (optionModes chosen) of
  Left why -> refuse why
  Right mode
    -- Only lines can be left out.
    | optionKeepGoing chosen && not (ofLines mode) -> refuse "--keep-going needs --lines"
    | otherwise -> run mode chosen
  where
    refuse why = ExitFailure 2 <$ complain why

-- The one mode that the options name together, or the first two that exclude each other.
modeOf :: [Mode] -> Either String Mode
modeOf given = case nub given of
  [] -> Right Pretty
  [mode] -> Right mode
  modes -> case [(one, other) | one : others <- tails modes, other <- others, not (together one other)] of
    [] -> Right CheckLines
    (one, other) : _ -> Left (named one ++ " and " ++ named other ++ " exclude each other")
  where
    together one other = all (`elem` [Check, Relines]) [one, other]
    named = \case
      Check -> "--check"
      CheckLines -> "--check --lines"
      Minify -> "--minify"
      Pretty -> "--pretty"
      Relines -> "--lines"

run :: Mode -> JsonOptions -> IO ExitCode
run mode chosen = do
  given <- mapM toBytes (optionFiles chosen)
  trouble <- newRef False
  invalid <- newRef False
  let names = if null given then [Char8.pack "-"] else given
      complainOf text = writeRef trouble True >> complain text
  output <- newOutput stdOutput "standard output"
  block <- newBuffer blockSize
  room <- newBuffer blockSize
  inputs <- if writesNothing mode then pure names else filterM (isSafe complainOf) names
  let go _ [] = pure ()
      go separated (name : rest) = do
        gone <- readerGone output
        unless gone $ do
          when separated (put output (Char8.pack "\n"))
          result <- try (if optionKeepGoing chosen then eachLine mode chosen output block name else document mode chosen output block room name)
          flushOutput output
          case result of
            -- Nothing was written that needs a separator.
            Left e -> complainOf (sourceMessage e) >> go separated rest
            Right wrong -> do
              forM_ wrong $ \text -> do
                writeRef invalid True
                unless (optionQuiet chosen) (complainWith text)
              go (mode == Minify) rest
  go False inputs
  gone <- readerGone output
  -- As every C program whose reader has gone: it ends quietly.
  when gone (endByBrokenPipe >> writeRef trouble True >> complain ("standard output: " ++ describeErrno EPIPE))
  failed <- readRef trouble
  bad <- readRef invalid
  pure (if failed then ExitFailure 2 else if bad then ExitFailure 1 else ExitSuccess)

-- The most bytes of a read or a write.
blockSize :: Int
blockSize = 131072

-- One file of lines, each checked by itself. Errors are reported at once, so the result is an empty message, or Nothing
-- if every line is valid.
eachLine :: Mode -> JsonOptions -> Output -> Buffer -> ByteString -> IO (Maybe ByteString)
eachLine mode chosen output block name = readingFrom source $ \readInto -> do
  invalid <- newRef False
  let next = withBuffer block $ \p -> do
        n <- readInto p (bufferSize block)
        Bytes.packCStringLen (castPtr p, n)
      act line = case lineResult line of
        Right minified -> unless (writesNothing mode) (put output minified)
        Left e -> do
          writeRef invalid True
          let before = Bytes.take (malformedOffset e - lineOffset line) (lineText line)
              column = 1 + Bytes.length (Bytes.filter (\byte -> byte < 0x80 || byte >= 0xc0) before)
          unless (optionQuiet chosen) (complainWith (message False (sourceName source) (lineNumber line) column e))
      loop lines_ = do
        text <- next
        if Bytes.null text
          then mapM_ act (finishLines lines_)
          else do
            let (found, rest) = feedLines lines_ text
            mapM_ act found
            -- The reader of the output must not wait for more input.
            flushOutput output
            gone <- readerGone output
            unless gone (loop rest)
  loop (jsonLines limits (relines limits))
  bad <- readRef invalid
  pure (if bad then Just Bytes.empty else Nothing)
  where
    source = sourceFor name
    limits = limitsOf chosen

-- One file; the message about its error, if it has one.
document :: Mode -> JsonOptions -> Output -> Buffer -> Buffer -> ByteString -> IO (Maybe ByteString)
document mode chosen output block room name = readingFrom source $ \readInto -> do
  automaton <- newAutomaton level limits (if ofLines mode then ManyValues else OneValue)
  formatter <- newFormatter level $ case mode of
    Relines -> Lines
    Pretty -> Indented (optionIndent chosen)
    _ -> Minified
  position <- newPosition level
  let write = unless (writesNothing mode) . into formatter
      loop p = do
        base <- taken automaton
        n <- readInto p (bufferSize block)
        if n == 0
          then
            atEnd automaton >>= \case
              Wrong e -> Just <$> told e base
              _ -> Nothing <$ write Nothing
          else
            advance automaton p n >>= \case
              Wrong e -> do
                let right = max 0 (malformedOffset e - base)
                movePosition position p right
                write (Just (p, right))
                Just <$> told e (base + right)
              _ -> do
                movePosition position p n
                write (Just (p, n))
                -- The reader of the output must not wait for more input.
                flushOutput output
                gone <- readerGone output
                if gone then pure Nothing else loop p
      told e here = do
        (line, column) <- lineColumn position
        pure (message True (sourceName source) line (stepBack e here column) e)
  withBuffer block loop
  where
    source = sourceFor name
    limits = limitsOf chosen
    -- Format a piece and write it; Nothing at the end writes the rest.
    into formatter piece = do
      when (null piece) (endLayout formatter)
      let go (p, n) = do
            (took, wrote) <- withBuffer room $ \out -> do
              (took, wrote) <- layOut formatter p n out (bufferSize room)
              when (wrote > 0) (Bytes.unsafePackCStringLen (castPtr out, wrote) >>= put output)
              pure (took, wrote)
            gone <- readerGone output
            unless (gone || (took == n && wrote < bufferSize room)) (go (p `plusPtr` took, n - took))
      withBuffer room (\anywhere -> go (fromMaybe (anywhere, 0) piece))

limitsOf :: JsonOptions -> Limits
limitsOf chosen = defaultLimits {limitDepth = optionDepth chosen, limitNumber = maxBound, limitSize = maxBound}

put :: Output -> ByteString -> IO ()
put output piece = void (push (outputSink output) piece)

-- The error may begin in the previous block, on the same line: an escape or a character of several bytes.
stepBack :: Malformed -> Int -> Int -> Int
stepBack e here column
  | malformedOffset e >= here = column
  | malformedReason e == InvalidUtf8 = column - 1
  | malformedOffset e == 0 = 1
  | otherwise = column - (here - malformedOffset e)

-- Advises --lines only where it is not already given.
message :: Bool -> ByteString -> Int -> Int -> Malformed -> ByteString
message advise name line column e =
  Bytes.concat
    [ name,
      Char8.pack (concat [":", show line, ":", show column, ": ", showReason reason, hint, " (byte ", show (malformedOffset e), ")\n"])
    ]
  where
    reason = malformedReason e
    hint = case reason of
      TrailingBytes | advise -> "; --lines takes any number of values"
      TooDeep _ -> "; --depth sets the limit"
      _ -> ""

-- File names are written as the bytes that they are.
complain :: String -> IO ()
complain text = complainWith (Char8.pack ("heddle json: " ++ text ++ "\n"))
