-- |
-- Module      : Heddle.OpenFlow.Request
-- Description : Questions to a switch, and changes that are confirmed
-- Stability   : hidden; "Heddle.OpenFlow.Controller" exports it
--
-- A request ends in its answer, in an error of the switch, at its deadline, or with the connection. A commit sends flow
-- modifications and barriers, and says which of them the switch refused.
--
-- Owner: any thread but the handlers of the same switch, which run in the thread that would read the answer; a
-- handler forks.
-- Cost: an entry in the table of pending requests, and a wait.
module Heddle.OpenFlow.Request
  ( Request (..),
    RequestError (..),
    renderRequestError,
    request,
    requestUntil,

    -- * Questions
    askDescription,
    askFlows,
    askAggregate,
    askTables,
    askPorts,
    askPortStats,
    askQueueStats,
    askGroups,
    askGroupStats,
    askMeters,
    askTableFeatures,
    askConfig,
    askEcho,
    askBarrier,
    askRole,
    generationAfter,

    -- * Changes
    CommitError (..),
    commit,
    commitUntil,
    commitMessagesUntil,
  )
where

import Control.Monad (void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.Int (Int64)
import Data.Maybe (fromMaybe)
import Data.Word (Word32, Word64)
import Heddle.Channel qualified as Channel
import Heddle.OpenFlow.Message
import Heddle.OpenFlow.Multipart
import Heddle.OpenFlow.Switch
import Heddle.OpenFlow.Types
import Heddle.OpenFlow.Wire (DecodeError (..), EncodeError)
import Heddle.Prim.Atomic (newRef, readRef, writeRef)
import Heddle.Prim.Clock
import Heddle.Prim.Exception (finally)

-- | A question, and how its answer is read.
data Request a = Request
  { requestMessage :: !(Version -> Message),
    requestAnswer :: !(Message -> Maybe a)
  }

-- | The failure of a request.
data RequestError
  = -- | The deadline passed.
    NoAnswer
  | -- | The connection ended first.
    Disconnected
  | -- | The switch answered with an error; its data is the beginning of the request.
    RefusedBy !ErrorKind !ByteString
  | -- | The answer is of another kind.
    Unexpected !Message
  | -- | The answer cannot be read.
    Unreadable !DecodeError
  | -- | The version has no form for the question.
    Unaskable !EncodeError
  | -- | The answer has more than 16 MiB.
    TooBig
  | -- | The switch does not take what is sent for it.
    MailboxFull
  deriving stock (Eq, Show)

-- | For logs.
renderRequestError :: Version -> RequestError -> String
renderRequestError version = \case
  NoAnswer -> "no answer before the deadline"
  Disconnected -> "the connection ended before the answer"
  RefusedBy kind _ -> "the switch refused: " ++ renderError version kind
  Unexpected m -> "an answer of another kind: " ++ messageName m
  Unreadable e -> "an answer that cannot be read: " ++ decodeWhat e
  Unaskable e -> "this version has no form for it: " ++ show e
  TooBig -> "an answer of more than 16 MiB"
  MailboxFull -> "the switch does not take what is sent for it"

-- | 'requestUntil' with the controller's patience (10 seconds by default).
--
-- [Blocks]: parks.
-- [Masking]: interruptible.
-- [Threads]: any but the switch's handlers.
request :: Switch -> Request a -> IO (Either RequestError a)
request switch question = deadlineIn (switchPatience switch) >>= \deadline -> requestUntil switch deadline question

-- | Ask, and wait for the whole answer: the parts of a multipart reply are put together.
--
-- [Blocks]: parks.
-- [Masking]: interruptible; the answer is then dropped.
-- [Threads]: any but the switch's handlers.
requestUntil :: Switch -> Deadline -> Request a -> IO (Either RequestError a)
requestUntil switch deadline (Request message answer) = do
  xid <- nextXids switch 1
  reply <- Channel.newBounded 1
  parts <- newRef (0 :: Int, [])
  let finish r = True <$ void (Channel.trySend reply r)
      arrived = \case
        Nothing -> finish (Left Disconnected)
        Just bytes -> case decode version bytes of
          Left e -> finish (Left (Unreadable e))
          Right (_, ErrorMessage kind why) -> finish (Left (RefusedBy kind why))
          Right (_, MultipartReply flags body) -> do
            (size, sofar) <- readRef parts
            let size' = size + B.length bytes
            if size' > 0x1000000
              then finish (Left TooBig)
              else
                if odd flags
                  then False <$ writeRef parts (size', body : sofar)
                  else finish (maybe (Left (Unexpected (MultipartReply flags body))) (understood . MultipartReply 0) (appendReplies (reverse (body : sofar))))
          Right (_, m) -> finish (understood m)
      understood m = maybe (Left (Unexpected m)) Right (answer m)
  there <- addPending switch [(xid, Pending arrived)]
  if not there
    then pure (Left Disconnected)
    else
      ( sendUntil switch deadline xid (message version) >>= \case
          Sent -> switchWhileWaiting switch (fromMaybe (Left NoAnswer) <$> Channel.recvUntil reply deadline)
          Unsendable e -> pure (Left (Unaskable e))
          Gone -> pure (Left Disconnected)
          _ -> pure (Left MailboxFull)
      )
        `finally` removePending switch [xid]
  where
    version = infoVersion (switchInfo switch)

multipart :: MultipartRequestBody -> (MultipartReplyBody -> Maybe a) -> Request a
multipart body f = Request (const (MultipartRequest 0 body)) (\case MultipartReply _ b -> f b; _ -> Nothing)

-- | Questions. In 1.0 the ports are part of the features, and there are no groups, meters and roles.
askDescription :: Request SwitchDescription
askDescription = multipart DescriptionRequest (\case DescriptionReply d -> Just d; _ -> Nothing)

-- | The flows that match.
askFlows :: FlowQuery -> Request [FlowStats]
askFlows q = multipart (FlowRequest q) (\case FlowReply f -> Just f; _ -> Nothing)

-- | Sums over the flows that match.
askAggregate :: FlowQuery -> Request AggregateStats
askAggregate q = multipart (AggregateRequest q) (\case AggregateReply a -> Just a; _ -> Nothing)

-- | The counters of all tables.
askTables :: Request [TableStats]
askTables = multipart TableRequest (\case TableReply t -> Just t; _ -> Nothing)

-- | The ports.
askPorts :: Request [Port]
askPorts =
  Request (\case OF10 -> FeaturesRequest; OF13 -> MultipartRequest 0 PortDescriptionRequest) $ \case
    MultipartReply _ (PortDescriptionReply p) -> Just p
    FeaturesReply f -> Just (featuresPorts f)
    _ -> Nothing

-- | The counters of a port, or of all ('PortAny').
askPortStats :: PortNo -> Request [PortStats]
askPortStats p = multipart (PortStatsRequest p) (\case PortStatsReply s -> Just s; _ -> Nothing)

-- | The counters of a port's queue.
askQueueStats :: PortNo -> Word32 -> Request [QueueStats]
askQueueStats p q = multipart (QueueStatsRequest p q) (\case QueueStatsReply s -> Just s; _ -> Nothing)

-- | The groups.
askGroups :: Request [GroupDescription]
askGroups = multipart GroupDescriptionRequest (\case GroupDescriptionReply g -> Just g; _ -> Nothing)

-- | The counters of a group.
askGroupStats :: Word32 -> Request [GroupStats]
askGroupStats g = multipart (GroupStatsRequest g) (\case GroupStatsReply s -> Just s; _ -> Nothing)

-- | A meter as it is configured.
askMeters :: Word32 -> Request [MeterConfig]
askMeters m = multipart (MeterConfigRequest m) (\case MeterConfigReply c -> Just c; _ -> Nothing)

-- | Ask for the tables' features.
askTableFeatures :: Request [TableFeatures]
askTableFeatures = multipart (TableFeaturesRequest []) (\case TableFeaturesReply t -> Just t; _ -> Nothing)

-- | The switch's configuration.
askConfig :: Request SwitchConfig
askConfig = Request (const GetConfigRequest) (\case GetConfigReply c -> Just c; _ -> Nothing)

-- | An echo of these bytes.
askEcho :: ByteString -> Request ByteString
askEcho bytes = Request (const (EchoRequest bytes)) (\case EchoReply b -> Just b; _ -> Nothing)

-- | All earlier commands have been carried out.
askBarrier :: Request ()
askBarrier = Request (const BarrierRequest) (\case BarrierReply -> Just (); _ -> Nothing)

-- | Take a role; 1.3. A switch refuses a master or slave of an older generation than it has seen.
askRole :: Role -> Word64 -> Request RoleMessage
askRole role generation = Request (const (RoleRequest (RoleMessage role generation))) (\case RoleReply r -> Just r; _ -> Nothing)

-- | True if the first generation is newer: by the sign of the difference, so that the numbers may wrap.
generationAfter :: Word64 -> Word64 -> Bool
generationAfter a b = (fromIntegral (a - b) :: Int64) > 0

-- | Why a commit failed.
data CommitError
  = -- | These commands were refused, by their place in the list; all others are in effect.
    CommandsRefused ![(Int, ErrorKind, ByteString)]
  | -- | Some may be in effect.
    CommitFailed !RequestError
  deriving stock (Eq, Show)

-- | 'commitUntil' with the controller's patience.
--
-- [Blocks]: parks.
-- [Threads]: any but the switch's handlers.
commit :: Switch -> [FlowMod] -> IO (Either CommitError ())
commit switch mods = deadlineIn (switchPatience switch) >>= \deadline -> commitUntil switch deadline mods

-- | Change the flow tables, in this order, and wait until the switch has done it. After a group of deletions comes a
-- barrier, because a switch may reorder what no barrier divides.
--
-- [Blocks]: parks.
-- [Masking]: interruptible; the changes stay.
-- [Threads]: any but the switch's handlers.
commitUntil :: Switch -> Deadline -> [FlowMod] -> IO (Either CommitError ())
commitUntil switch deadline mods = commitMessagesUntil switch deadline (divided (zip [0 ..] mods))
  where
    divided = \case
      (i, a) : rest@((_, b) : _) | isDelete a && not (isDelete b) -> Right (i, FlowModMessage a) : Left () : divided rest
      (i, a) : rest -> Right (i, FlowModMessage a) : divided rest
      [] -> []
    isDelete m = flowModCommand m `elem` [FlowDelete, FlowDeleteStrict]

-- | 'commitUntil' for any messages without an answer of their own: each with its place, or a barrier.
--
-- [Blocks]: parks.
-- [Threads]: any but the switch's handlers.
commitMessagesUntil :: Switch -> Deadline -> [Either () (Int, Message)] -> IO (Either CommitError ())
commitMessagesUntil switch deadline steps = do
  let count = length steps
  first <- nextXids switch (count + 1)
  errors <- newRef []
  done <- Channel.newBounded 1
  let final = first + fromIntegral count
      numbered = zip [first ..] (map (maybe BarrierRequest snd . rightToMaybe) steps ++ [BarrierRequest])
      failed place = Pending $ \case
        Just bytes | Right (_, ErrorMessage kind why) <- decode version bytes -> do
          sofar <- readRef errors
          writeRef errors ((place, kind, why) : sofar)
          pure False
        _ -> pure True
      finished = Pending $ \answer -> do
        void (Channel.trySend done (maybe (Left Disconnected) (const (Right ())) answer))
        pure True
      entries = [(x, failed place) | (x, Right (place, _)) <- zip [first ..] steps] ++ [(final, finished)]
  case traverse (uncurry (encode version)) numbered of
    Left e -> pure (Left (CommitFailed (Unaskable e)))
    Right bytes -> do
      there <- addPending switch entries
      if not there
        then pure (Left (CommitFailed Disconnected))
        else
          ( sendAll bytes >>= \case
              Just e -> pure (Left (CommitFailed e))
              Nothing ->
                switchWhileWaiting switch (Channel.recvUntil done deadline) >>= \case
                  Nothing -> pure (Left (CommitFailed NoAnswer))
                  Just (Left e) -> pure (Left (CommitFailed e))
                  Just (Right ()) -> do
                    refused <- readRef errors
                    pure (if null refused then Right () else Left (CommandsRefused (reverse refused)))
          )
            `finally` removePending switch (map fst entries)
  where
    version = infoVersion (switchInfo switch)
    rightToMaybe = either (const Nothing) Just
    -- In pieces that the mailbox takes.
    sendAll = \case
      [] -> pure Nothing
      bytes ->
        let (now, later) = piece 0 bytes
         in sendBytesUntil switch deadline (B.concat now) >>= \case
              Sent -> sendAll later
              Gone -> pure (Just Disconnected)
              _ -> pure (Just MailboxFull)
    piece _ [] = ([], [])
    piece n (b : bs)
      | n > 0 && n + B.length b > 0x2000 = ([], b : bs)
      | otherwise = let (now, later) = piece (n + B.length b) bs in (b : now, later)
