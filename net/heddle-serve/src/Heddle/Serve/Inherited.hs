-- |
-- Module      : Heddle.Serve.Inherited
-- Description : Listening sockets that the process was started with
-- Stability   : internal, exempt from the version policy
--
-- Two givers: systemd, whose @.socket@ units listen before the service runs ("sd_listen_fds(3)": @LISTEN_PID@,
-- @LISTEN_FDS@, @LISTEN_FDNAMES@), and the server whose place this one takes ("Heddle.Serve.Successor"), by
-- @HEDDLE_SUCCESSOR@. The variables are removed, so that no program started by this one believes them, and the
-- descriptors are closed when another program is executed.
--
-- Cost: some system calls at start.
-- Owner: 'takeInherited' gives the descriptors to its caller, once.
module Heddle.Serve.Inherited
  ( Inherited (..),
    takeInherited,
    startedAsSuccessor,
    Handover (..),
    renderHandover,
    parseHandover,
    handoverVariable,
  )
where

import Control.Monad (void)
import Data.Foldable (for_, toList)
import Data.List.NonEmpty (NonEmpty, nonEmpty)
import Data.Maybe (fromMaybe, isJust)
import Heddle.Prim.Exception (trySync)
import System.Environment (lookupEnv, unsetEnv)
import System.Posix.IO (FdOption (CloseOnExec), setFdOption)
import System.Posix.Process (getProcessID)
import System.Posix.Types (Fd)
import Text.Read (readMaybe)

-- | Test whether another server has started this process to take its place; known until 'takeInherited'.
startedAsSuccessor :: IO Bool
startedAsSuccessor = isJust <$> lookupEnv handoverVariable

-- | What a server gives to the one that takes its place.
data Handover = Handover
  { -- | Where to write a byte once the successor serves.
    handoverReady :: !Fd,
    -- | An address as the user wrote it, and the sockets of one of its listeners.
    handoverListeners :: ![(String, NonEmpty Fd)]
  }
  deriving stock (Eq, Show)

-- | What there is at the start.
data Inherited = Inherited
  { inheritedHandover :: !(Maybe Handover),
    -- | systemd's sockets, with their names.
    inheritedSockets :: ![(String, Fd)]
  }

-- | The variable that 'renderHandover' is the value of.
handoverVariable :: String
handoverVariable = "HEDDLE_SUCCESSOR"

-- | Text for the variable.
renderHandover :: Handover -> String
renderHandover (Handover ready listeners) = show (number ready, [(spec, map number (toList fds)) | (spec, fds) <- listeners])
  where
    number fd = fromIntegral fd :: Int

-- | Inverse of 'renderHandover'.
parseHandover :: String -> Maybe Handover
parseHandover text = do
  (ready, listeners) <- readMaybe text
  Handover <$> descriptor ready <*> traverse (\(spec, fds) -> (,) spec <$> (nonEmpty =<< traverse descriptor fds)) listeners
  where
    descriptor n = if n >= (0 :: Int) then Just (fromIntegral n) else Nothing

split :: Char -> String -> [String]
split c text = case break (== c) text of
  (one, _ : rest) -> one : split c rest
  (one, []) -> [one]

-- | Take what there is; a second time there is nothing.
--
-- [Blocks]: never.
takeInherited :: IO Inherited
takeInherited = do
  handed <- (>>= parseHandover) <$> lookupEnv handoverVariable
  wanted <- (>>= readMaybe) <$> lookupEnv "LISTEN_PID"
  number <- (>>= readMaybe) <$> lookupEnv "LISTEN_FDS"
  names <- lookupEnv "LISTEN_FDNAMES"
  for_ [handoverVariable, "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"] unsetEnv
  me <- getProcessID
  let sockets
        | wanted == Just (toInteger me) = zip (maybe [] (split ':') names ++ repeat "unknown") (map fromIntegral [3 .. 2 + min 1024 (fromMaybe 0 number :: Int)])
        | otherwise = []
  for_ ([fd | Just h <- [handed], fd <- handoverReady h : concatMap (toList . snd) (handoverListeners h)] ++ map snd sockets) $ \fd ->
    -- A number that is no open descriptor fails where it is used.
    void (trySync (setFdOption fd CloseOnExec True))
  pure (Inherited handed sockets)
