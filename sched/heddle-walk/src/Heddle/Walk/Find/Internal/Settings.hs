-- |
-- Module      : Heddle.Walk.Find.Internal.Settings
-- Description : What a command line says besides its expression
-- Stability   : internal, exempt from the version policy
--
-- Options, starting points and open files, gathered while the command line is read; and
-- the monad that reads it.
--
-- Cost: values. Owner: the run.
module Heddle.Walk.Find.Internal.Settings
  ( -- * Settings
    Settings (..),
    defaultSettings,
    OutputFile (..),

    -- * Reading a command line
    Read,
    Stop (..),
    runRead,
    failWith,
    stopReading,
    warning,
    settings,
    change,
    effect,

    -- * Messages
    quote,
    complain,
    errnoText,
  )
where

import Control.Monad (void)
import Control.Monad.Trans.Class (lift)
import Control.Monad.Trans.Except (ExceptT, runExceptT, throwE)
import Control.Monad.Trans.State.Strict (StateT, get, modify', runStateT)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Foreign.C.Types (CChar, CInt (..))
import Foreign.Ptr (Ptr)
import Heddle.Bytes.Regex (Dialect, defaultDialect)
import Heddle.Prim.Errno (Errno (..))
import Heddle.Prim.Unsafe (unsafePure)
import Heddle.Walk.Find.Internal.System (Timestamp (..), writeText)
import Heddle.Walk.Internal.Entry (quoted)
import Heddle.Walk.Internal.Options (Follow (..))
import System.Posix.Types (Fd)
import Prelude hiding (Read)

-- | An output file of @-fprint@ and similar actions.
data OutputFile = OutputFile
  { outputName :: !ByteString,
    outputDescriptor :: !Fd,
    -- | Device and inode, to know it again under another name.
    outputIdentity :: !(Int, Int)
  }

-- | All but the expression.
data Settings = Settings
  { -- | The name before the colon in messages.
    setProgram :: !ByteString,
    setFollow :: !Follow,
    setMinDepth :: !Int,
    setMaxDepth :: !Int,
    setDepthFirst :: !Bool,
    -- | Asked for, not only implied by @-delete@.
    setDepthAsked :: !Bool,
    setOneFileSystem :: !Bool,
    setIgnoreRace :: !Bool,
    setDaystart :: !Bool,
    -- | Where ages count from, less a day.
    setOrigin :: !Timestamp,
    setNow :: !Timestamp,
    setDialect :: !Dialect,
    setWarn :: !Bool,
    setPosixly :: !Bool,
    -- | The first word that was not an option.
    setFirstNonOption :: !(Maybe ByteString),
    setOutputs :: ![OutputFile],
    setBatches :: !Int,
    setStartsFrom :: !(Maybe ByteString),
    setOrdered :: !Bool,
    setFirst :: !Bool,
    -- | Workers; 'Nothing': one for each processor.
    setJobs :: !(Maybe Int)
  }

-- | A program's name, the time now, whether standard input is a terminal, and whether
-- POSIXLY_CORRECT is set.
defaultSettings :: ByteString -> Timestamp -> Bool -> Bool -> Settings
defaultSettings program now@(Timestamp seconds nanos) terminal posixly =
  Settings
    { setProgram = program,
      setFollow = FollowNone,
      setMinDepth = 0,
      setMaxDepth = maxBound,
      setDepthFirst = False,
      setDepthAsked = False,
      setOneFileSystem = False,
      setIgnoreRace = False,
      setDaystart = False,
      setOrigin = Timestamp (seconds - 86400) nanos,
      setNow = now,
      setDialect = defaultDialect,
      setWarn = terminal && not posixly,
      setPosixly = posixly,
      setFirstNonOption = Nothing,
      setOutputs = [],
      setBatches = 0,
      setStartsFrom = Nothing,
      setOrdered = False,
      setFirst = False,
      setJobs = Nothing
    }

-- | Why reading ended early.
data Stop
  = -- | Messages, each to be preceded by the program's name; the status is 1.
    Failure ![ByteString]
  | -- | As before, and a pointer to the help.
    BadUsage !ByteString
  | -- | What was asked for; the status is 0.
    Answer !ByteString

-- | Reading a command line: changes settings, looks at files, may stop.
type Read = StateT Settings (ExceptT Stop IO)

-- | Read.
runRead :: Read a -> Settings -> IO (Either Stop (a, Settings))
runRead action = runExceptT . runStateT action

-- | Stop with a message.
failWith :: [ByteString] -> Read a
failWith = stopReading . Failure . pure . Bytes.concat

-- | Stop.
stopReading :: Stop -> Read a
stopReading = lift . throwE

-- | Say something, and go on.
warning :: [ByteString] -> Read ()
warning parts = do
  program <- setProgram <$> get
  effect (complain program (Bytes.concat (Char8.pack "warning: " : parts)))

-- | A field of the settings.
settings :: (Settings -> a) -> Read a
settings field = field <$> get

-- | Change the settings.
change :: (Settings -> Settings) -> Read ()
change = modify'

-- | Do something.
effect :: IO a -> Read a
effect = lift . lift

-- | A name in a message.
quote :: ByteString -> ByteString
quote = unsafePure . quoted

-- | A message of this program on standard error.
--
-- [Blocks]: while standard error's reader is slow.
complain :: ByteString -> ByteString -> IO ()
complain program text =
  -- A failure has nowhere to be reported.
  void (writeText 2 (Bytes.concat [program, Char8.pack ": ", text, Char8.pack "\n"]))

-- | The C library's words for an error number.
errnoText :: Errno -> ByteString
errnoText (Errno n) = unsafePure (c_strerror (fromIntegral n) >>= Bytes.packCString)

-- Unsafe: looks a number up in a table of the C library.
foreign import ccall unsafe "strerror" c_strerror :: CInt -> IO (Ptr CChar)
