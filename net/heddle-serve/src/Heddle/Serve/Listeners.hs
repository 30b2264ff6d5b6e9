-- |
-- Module      : Heddle.Serve.Listeners
-- Description : Open what the server accepts from
-- Stability   : internal, exempt from the version policy
--
-- A socket for an address is new, or taken over: from systemd, or from the server whose place this one takes.
--
-- Cost: some system calls for each address and core.
-- Owner: 'withListeners' closes the listeners.
module Heddle.Serve.Listeners
  ( withListeners,
    handedOver,
    withoutAccepting,
  )
where

import Control.Monad (unless)
import Data.Foldable (for_, toList, traverse_)
import Data.List.NonEmpty (NonEmpty (..), nonEmpty)
import Data.Maybe (fromMaybe, mapMaybe)
import Heddle.IO (ListenOptions (..), Listener, Runtime, Spread, adoptListeners, closeListener, defaultConfig, defaultListenOptions, handOverListener, listenerAddress, listenerDescriptors, newListener, takenOver, withRuntime)
import Heddle.Prim.Errno
import Heddle.Prim.Exception
import Heddle.Serve.Error
import Heddle.Serve.Inherited
import Heddle.Serve.Listen
import Network.Socket (SockAddr (..))
import System.Directory (removeFile)
import System.Posix.IO (FdOption (CloseOnExec), closeFd, dup, setFdOption)
import System.Posix.Types (Fd)

-- | With the listeners of these addresses, in their order. The flag says that those that were handed over stay the giver's,
-- with the files of Unix sockets.
--
-- [Blocks]: as the body; holds an OS thread while a name is looked up.
-- [Throws]: 'ServeError'.
withListeners :: Runtime -> Spread -> Inherited -> Bool -> [ListenSpec] -> ([(ListenSpec, Listener)] -> IO a) -> IO a
withListeners runtime spread inherited shared specs body = opening [] specs
  where
    handed = foldMap handoverListeners (inheritedHandover inherited)
    opening found [] = do
      -- The listeners have duplicates of these, and the kernel would go on queueing connections for them after the
      -- listeners are closed.
      traverse_ (trySync . closeFd) (concatMap (toList . snd) handed ++ map snd (inheritedSockets inherited))
      body (reverse found)
    opening found (spec : rest) = opened spec $ \newest -> opening (map ((,) spec) newest ++ found) rest
    opened spec next = case (listenPlace spec, [fds | (name, fds) <- handed, name == renderListen spec]) of
      (place, groups@(_ : _)) -> adopting (map (fmap (ours place) . adoptListeners runtime) groups)
      (ListenInherited name, []) -> case [fd | (name', fd) <- inheritedSockets inherited, null name || name' == name] of
        [] -> throwIO (CannotResolve (renderListen spec) (missing name))
        fds -> adopting (map (adoptListeners runtime . (:| [])) fds)
      (place, []) -> do
        resolved <- resolveListen place
        addresses <- either (throwIO . CannotResolve (renderListen spec)) pure resolved
        each addresses [] Nothing
      where
        adopting = go []
          where
            go newest [] = next newest
            go newest (action : rest) = bracket (naming (CannotListen (renderListen spec)) action) closeListener $ \listener -> go (listener : newest) rest
        -- A name may have addresses that this machine does not have (::1 without IPv6); it is
        -- enough that one works.
        each [] newest failure
          | not (null newest) = next newest
          | otherwise = throwIO (fromMaybe (CannotResolve (renderListen spec) "it has no usable address") failure)
        each (address : rest) newest failure = do
          let listenOptions = defaultListenOptions {listenSpread = spread}
          result <- try (newListener runtime listenOptions (samePort newest address))
          case result of
            Right listener -> each rest (listener : newest) failure `finally` closeListener listener
            Left (e :: IOException) -> case errnoOf e of
              Just errno
                | errno `elem` [EADDRNOTAVAIL, EAFNOSUPPORT] -> each rest newest (Just (cannot errno))
                | otherwise -> throwIO (cannot errno)
              Nothing -> throwIO e
        cannot = CannotListen (renderListen spec)
    -- The files of systemd's sockets are systemd's.
    ours = \case
      _ | shared -> id
      ListenInherited _ -> id
      _ -> takenOver
    missing name
      | null name = "systemd has passed no socket; a unit heddle.socket makes it do so"
      | otherwise = "systemd has passed no socket with FileDescriptorName=" ++ name

-- For port 0, all addresses of a name get the port that the system chose for the first.
samePort :: [Listener] -> SockAddr -> SockAddr
samePort found address = case found of
  l : _ -> withPortOf (listenerAddress l) address
  [] -> address

-- | Addresses and descriptors that a successor needs to take the listeners over.
handedOver :: [(ListenSpec, Listener)] -> [(String, NonEmpty Fd)]
handedOver = mapMaybe $ \(spec, listener) -> (,) (renderListen spec) <$> nonEmpty (listenerDescriptors listener)

-- | With the listening sockets of these addresses and the addresses that they have, for others to accept from. Of them no event
-- manager of this process hears: they were registered with a runtime of their own, which has ended, for an event manager
-- hears of a socket until its last descriptor is closed, in whatever process. The body says whether another process has the addresses
-- now; otherwise the files of Unix sockets go.
--
-- [Blocks]: as the body does.
-- [Throws]: as 'withListeners'.
withoutAccepting :: Spread -> Inherited -> [ListenSpec] -> ([(ListenSpec, SockAddr, NonEmpty Fd)] -> IO (Bool, a)) -> IO a
withoutAccepting spread inherited specs body = bracket open (\kept -> for_ kept (\(_, _, fds) -> traverse_ closeFd fds)) $ \kept -> do
  (given, r) <- body kept `onException` remove kept
  unless given (remove kept)
  pure r
  where
    open = withRuntime defaultConfig $ \runtime -> withListeners runtime spread inherited False specs $ \places -> do
      kept <- traverse (\(spec, listener) -> (,,) spec (listenerAddress listener) <$> traverse copy (listenerDescriptors listener)) places
      traverse_ (handOverListener . snd) places
      pure [(spec, address, fd :| fds) | (spec, address, fd : fds) <- kept]
    -- No program is started meanwhile.
    copy fd = dup fd >>= \new -> new <$ setFdOption new CloseOnExec True
    remove kept = for_ [path | (ListenSpec _ (ListenUnix _), SockAddrUnix path, _) <- kept] (trySync . removeFile)
