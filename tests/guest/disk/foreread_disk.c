// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Disks with modelled speed inside a guest, for guests in virtual time.
 *
 * QEMU's `ivshmem-plain` device shows a file of the host as memory: it is the content of a disk.
 * This driver makes a block device of each, fra, frb and so on in the order of PCI addresses. A
 * read is done when the model says so, by a timer of the guest. So nothing waits for the host, and
 * the guest's clock, which counts instructions, sees the times of the model. Writes take no time,
 * as of a disk with a large cache that is never lost.
 *
 * It is a driver with a queue (blk-mq), so that plugs, merging and the elevator are the kernel's.
 *
 * Parameters of the module:
 *   disks     NAME:NUMBER,NUMBER,...;NAME:... the numbers are those of fr_disk_parameters
 *   counters  read only; a line a disk: name, requests, bytes, busy ns, seeks, gaps, first touches
 *
 * The first reads of each disk are in /sys/kernel/debug/foreread_disk/NAME: a `struct fr_record`
 * each, of which the last ones are zero.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/blk-mq.h>
#include <linux/debugfs.h>
#include <linux/hrtimer.h>
#include <linux/io.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/version.h>
#include <linux/vmalloc.h>

#include "model.h"

#define FR_MEMORY_BAR 2
#define FR_NAME_MAX 16
#define FR_NUMBERS (sizeof(struct fr_disk_parameters) / sizeof(fr_u64))
#define FR_DISKS_MAX 16

#define FR_RECORDS_MAX 16384

static char *disks;
module_param(disks, charp, 0444);
MODULE_PARM_DESC(disks, "NAME:NUMBER,...;... in the order of PCI addresses");

/* A read, for who wants to know in which order a disk is asked. */
struct fr_record {
	u64 arrived_ns;
	u64 done_ns;
	u64 offset_bytes;
	u32 length_bytes;
	u32 is_ahead; /* by readahead of the kernel */
	char command[TASK_COMM_LEN]; /* of the thread that has issued it */
};

struct fr_device {
	char name[FR_NAME_MAX];
	char *content;
	struct gendisk *gendisk;
	struct blk_mq_tag_set tags;
	struct hrtimer timer;
	/* Of the model. Its ids are tags. */
	spinlock_t lock;
	struct fr_disk model;
	/* Of requests by tag: their number in records. */
	u32 record_of[FR_DISK_QUEUE_MAX];
	u32 record_count;
	struct debugfs_blob_wrapper records;
};

static struct fr_device *devices[FR_DISKS_MAX];
static unsigned int device_count;
static int major;
static struct dentry *directory;

/* Copies between the pages of a request and the content, as a disk would by itself. */
static void fr_copy(struct fr_device *device, struct request *request)
{
	char *content = device->content + (blk_rq_pos(request) << SECTOR_SHIFT);
	struct req_iterator iterator;
	struct bio_vec segment;

	rq_for_each_segment(segment, request, iterator)
	{
		if (op_is_write(req_op(request)))
			memcpy_from_bvec(content, &segment);
		else
			memcpy_to_bvec(&segment, content);
		content += segment.bv_len;
	}
}

static void fr_complete(struct request *request)
{
	fr_copy(request->q->queuedata, request);
	blk_mq_end_request(request, BLK_STS_OK);
}

/* With the lock: takes out what is done, and sets the timer for what comes next. */
static unsigned int fr_take_done(struct fr_device *device, unsigned int tags[FR_DISK_QUEUE_MAX])
{
	struct fr_disk *model = &device->model;
	unsigned int count = model->done_count, i;
	fr_u64 next_ns;

	for (i = 0; i < count; i++) {
		struct fr_record *records = device->records.data;

		tags[i] = model->done[i].id;
		if (device->record_of[tags[i]] < FR_RECORDS_MAX)
			records[device->record_of[tags[i]]].done_ns = model->done[i].done_ns;
	}
	model->done_count = 0;
	next_ns = fr_disk_next_ns(model);
	if (next_ns != FR_DISK_NEVER)
		hrtimer_start(&device->timer, ns_to_ktime(next_ns), HRTIMER_MODE_ABS_HARD);
	return count;
}

static void fr_tell_done(struct fr_device *device, const unsigned int *tags, unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++)
		blk_mq_complete_request(blk_mq_tag_to_rq(device->tags.tags[0], tags[i]));
}

/* With the lock. */
static void fr_note(struct fr_device *device, const struct request *request, u64 now_ns)
{
	struct fr_record *record = device->records.data;

	device->record_of[request->tag] = device->record_count;
	if (!record || device->record_count == FR_RECORDS_MAX)
		return;
	record += device->record_count++;
	record->arrived_ns = now_ns;
	record->offset_bytes = (u64)blk_rq_pos(request) << SECTOR_SHIFT;
	record->length_bytes = blk_rq_bytes(request);
	record->is_ahead = !!(request->cmd_flags & REQ_RAHEAD);
	memcpy(record->command, current->comm, TASK_COMM_LEN);
}

static enum hrtimer_restart fr_timer(struct hrtimer *timer)
{
	struct fr_device *device = container_of(timer, struct fr_device, timer);
	unsigned int tags[FR_DISK_QUEUE_MAX], count;
	unsigned long flags;

	spin_lock_irqsave(&device->lock, flags);
	fr_disk_run(&device->model, ktime_get_ns());
	count = fr_take_done(device, tags);
	spin_unlock_irqrestore(&device->lock, flags);
	fr_tell_done(device, tags, count);
	return HRTIMER_NORESTART;
}

static blk_status_t fr_queue(struct blk_mq_hw_ctx *context, const struct blk_mq_queue_data *data)
{
	struct fr_device *device = context->queue->queuedata;
	struct request *request = data->rq;
	unsigned int tags[FR_DISK_QUEUE_MAX], count;
	unsigned long flags;
	u64 now_ns;

	blk_mq_start_request(request);
	if (req_op(request) != REQ_OP_READ) {
		blk_mq_complete_request(request);
		return BLK_STS_OK;
	}
	spin_lock_irqsave(&device->lock, flags);
	now_ns = ktime_get_ns();
	fr_note(device, request, now_ns);
	fr_disk_submit(&device->model, now_ns, request->tag,
		       (fr_u64)blk_rq_pos(request) << SECTOR_SHIFT, blk_rq_bytes(request));
	count = fr_take_done(device, tags);
	spin_unlock_irqrestore(&device->lock, flags);
	fr_tell_done(device, tags, count);
	return BLK_STS_OK;
}

static const struct blk_mq_ops fr_queue_operations = {
	.queue_rq = fr_queue,
	.complete = fr_complete,
};

static ssize_t serial_show(struct device *dev, struct device_attribute *attribute, char *buffer)
{
	struct fr_device *device = dev_to_disk(dev)->private_data;

	return sysfs_emit(buffer, "%s\n", device->name);
}
static DEVICE_ATTR_RO(serial);

static struct attribute *fr_attributes[] = { &dev_attr_serial.attr, NULL };
static const struct attribute_group fr_group = { .attrs = fr_attributes };
static const struct attribute_group *fr_groups[] = { &fr_group, NULL };

static const struct block_device_operations fr_operations = { .owner = THIS_MODULE };

/* Name and parameters of disk number `number`. */
static int fr_parse(struct fr_device *device, unsigned int number)
{
	fr_u64 *numbers = (fr_u64 *)&device->model.parameters;
	const char *text = disks;
	size_t length, i;

	while (text && number--) {
		text = strchr(text, ';');
		text = text ? text + 1 : NULL;
	}
	if (!text)
		return -EINVAL;
	length = strcspn(text, ":");
	if (!text[length] || length >= FR_NAME_MAX)
		return -EINVAL;
	memcpy(device->name, text, length);
	text += length + 1;
	for (i = 0; i < FR_NUMBERS; i++) {
		char digits[24];
		int error;

		length = strcspn(text, ",;");
		if (length >= sizeof(digits))
			return -EINVAL;
		memcpy(digits, text, length);
		digits[length] = 0;
		error = kstrtoull(digits, 10, &numbers[i]);
		if (error)
			return error;
		text += length + (text[length] == ',');
	}
	return 0;
}

static int fr_allocate(struct fr_device *device, bool is_rotational)
{
	struct gendisk *gendisk;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 9, 0)
	struct queue_limits limits = {
		.logical_block_size = SECTOR_SIZE,
		.physical_block_size = 4096,
		.max_hw_sectors = 2048,
		.max_segments = 256,
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
		.features = is_rotational ? BLK_FEAT_ROTATIONAL : 0,
#endif
	};

	gendisk = blk_mq_alloc_disk(&device->tags, &limits, device);
#else
	gendisk = blk_mq_alloc_disk(&device->tags, device);
#endif
	if (IS_ERR(gendisk))
		return PTR_ERR(gendisk);
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 9, 0)
	blk_queue_logical_block_size(gendisk->queue, SECTOR_SIZE);
	blk_queue_physical_block_size(gendisk->queue, 4096);
	blk_queue_max_hw_sectors(gendisk->queue, 2048);
	blk_queue_max_segments(gendisk->queue, 256);
#endif
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 11, 0)
	if (!is_rotational)
		blk_queue_flag_set(QUEUE_FLAG_NONROT, gendisk->queue);
#endif
	device->gendisk = gendisk;
	return 0;
}

/* They stay until the end, as the disk does. */
static int fr_allocate_touches(struct fr_disk *model, fr_u64 size_bytes)
{
	model->touches.block_count = fr_disk_block_count(model, size_bytes);
	if (!model->touches.block_count)
		return 0;
	model->touches.there_ns = vzalloc(model->touches.block_count * sizeof(fr_u64));
	return model->touches.there_ns ? 0 : -ENOMEM;
}

static int fr_probe(struct pci_dev *pci, const struct pci_device_id *id)
{
	struct fr_device *device;
	resource_size_t size;
	int error;

	if (device_count == FR_DISKS_MAX)
		return -ENOSPC;
	error = pcim_enable_device(pci);
	if (error)
		return error;
	device = devm_kzalloc(&pci->dev, sizeof(*device), GFP_KERNEL);
	if (!device)
		return -ENOMEM;
	error = fr_parse(device, device_count);
	if (error) {
		pr_err("no parameters for disk %u in disks=\n", device_count);
		return error;
	}
	size = pci_resource_len(pci, FR_MEMORY_BAR);
	device->content =
		devm_memremap(&pci->dev, pci_resource_start(pci, FR_MEMORY_BAR), size, MEMREMAP_WB);
	if (IS_ERR(device->content))
		return PTR_ERR(device->content);
	if (!device->model.parameters.capacity_bytes)
		device->model.parameters.capacity_bytes = size;
	error = fr_allocate_touches(&device->model, size);
	if (error)
		return error;
	spin_lock_init(&device->lock);
	device->records.data = vzalloc(FR_RECORDS_MAX * sizeof(struct fr_record));
	if (device->records.data)
		device->records.size = FR_RECORDS_MAX * sizeof(struct fr_record);
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 15, 0)
	hrtimer_setup(&device->timer, fr_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_HARD);
#else
	hrtimer_init(&device->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_HARD);
	device->timer.function = fr_timer;
#endif
	device->tags.ops = &fr_queue_operations;
	device->tags.nr_hw_queues = 1;
	device->tags.queue_depth = FR_DISK_QUEUE_MAX;
	device->tags.numa_node = NUMA_NO_NODE;
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 14, 0)
	device->tags.flags = BLK_MQ_F_SHOULD_MERGE;
#endif
	error = blk_mq_alloc_tag_set(&device->tags);
	if (error)
		return error;
	error = fr_allocate(device, device->model.parameters.kind == FR_DISK_HEAD);
	if (error)
		goto free_tags;
	device->gendisk->major = major;
	device->gendisk->first_minor = device_count * 16;
	device->gendisk->minors = 16;
	device->gendisk->fops = &fr_operations;
	device->gendisk->private_data = device;
	snprintf(device->gendisk->disk_name, sizeof(device->gendisk->disk_name), "fr%c",
		 'a' + device_count);
	set_capacity(device->gendisk, size >> SECTOR_SHIFT);
	error = device_add_disk(&pci->dev, device->gendisk, fr_groups);
	if (error)
		goto free_disk;
	debugfs_create_blob(device->name, 0400, directory, &device->records);
	devices[device_count++] = device;
	return 0;

free_disk:
	put_disk(device->gendisk);
free_tags:
	blk_mq_free_tag_set(&device->tags);
	vfree(device->records.data);
	return error;
}

static int counters_get(char *buffer, const struct kernel_param *parameter)
{
	int length = 0;
	unsigned int i;

	for (i = 0; i < device_count; i++) {
		struct fr_device *device = devices[i];
		struct fr_disk_counters counters;
		unsigned long flags;

		spin_lock_irqsave(&device->lock, flags);
		counters = device->model.counters;
		spin_unlock_irqrestore(&device->lock, flags);
		length += scnprintf(buffer + length, PAGE_SIZE - length,
				    "%s %llu %llu %llu %llu %llu %llu\n", device->name,
				    counters.requests, counters.bytes, counters.busy_ns,
				    counters.seeks, counters.gaps, counters.first_touches);
	}
	return length;
}

static const struct kernel_param_ops counters_operations = { .get = counters_get };
module_param_cb(counters, &counters_operations, NULL, 0444);
MODULE_PARM_DESC(counters,
		 "a line a disk: name, requests, bytes, busy ns, seeks, gaps, first touches");

static const struct pci_device_id fr_ids[] = { { PCI_DEVICE(0x1af4, 0x1110) }, {} };
MODULE_DEVICE_TABLE(pci, fr_ids);

static struct pci_driver fr_driver = {
	.name = KBUILD_MODNAME,
	.id_table = fr_ids,
	.probe = fr_probe,
};

/* The disks of a guest stay until its end: there is no unloading. */
static int __init fr_init(void)
{
	directory = debugfs_create_dir(KBUILD_MODNAME, NULL);
	major = register_blkdev(0, KBUILD_MODNAME);
	if (major < 0)
		return major;
	return pci_register_driver(&fr_driver);
}
module_init(fr_init);

MODULE_DESCRIPTION("Disks with modelled speed, for guests in virtual time");
MODULE_LICENSE("Dual BSD/GPL");
